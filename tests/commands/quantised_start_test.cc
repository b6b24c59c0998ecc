// Quantised weights through serve's own start: gsm-tiny in FP8, as a checkpoint and made while loading; memory as planned, the self-check
// passed, the cache as declared; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/fp8.h"
#include "commands/memory_plan.h"
#include "commands/startup.h"
#include "config/command_line.h"
#include "kit/temp_dir.h"
#include "model/checkpoint_files.h"

namespace quire::commands {
namespace {

using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModel[] = QUIRE_SOURCE_DIR "/models/gsm-tiny";  // 6 layers, bfloat16, tied
constexpr char kStatic[] = R"({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"], "kv_cache_scheme": "static"})";

model::test::RawTensor scalar(const std::string& name, float value) { return model::test::counting_tensor(name, {}, value); }

// A linear layer's bfloat16 weight in FP8, its scale, and a scale of its inputs.
void add_quantised(const std::string& name, const model::CheckpointTensor& t, std::vector<model::test::RawTensor>& out) {
  std::vector<float> values(t.bytes.size() / 2);
  float largest = 0.0f;
  for (std::size_t i = 0; i < values.size(); ++i) {
    BFloat16 h;
    std::memcpy(&h, t.bytes.data() + 2 * i, 2);
    values[i] = to_float(h);
    largest = std::max(largest, std::fabs(values[i]));
  }
  std::string bytes;
  for (const float x : values) bytes += static_cast<char>(fp8::encode(fp8::kE4m3, x / (largest / 448.0f)));
  const std::string layer = name.substr(0, name.size() - 6);  // without "weight"
  out.push_back({name, "F8_E4M3", t.shape, bytes});
  out.push_back(scalar(layer + "weight_scale", largest / 448.0f));
  out.push_back(scalar(layer + "input_scale", 0.05f));
  if (layer.ends_with("k_proj.") || layer.ends_with("v_proj.")) out.push_back(scalar(layer + "output_scale", 0.125f));
}

void write_quantised(const TempDir& dir, const std::string& config) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) std::filesystem::copy(std::string(kModel) + "/" + name, dir.path());
  std::string text = read_file(std::string(kModel) + "/config.json", 1 << 20).value();
  text.insert(text.find('{') + 1, R"("quantization_config": )" + config + ",");
  (void)dir.write("config.json", text);
  const auto checkpoint = model::Checkpoint::open(kModel);
  std::vector<model::test::RawTensor> tensors;
  for (const auto& [name, t] : checkpoint->tensors()) {
    if (name.ends_with("_proj.weight"))
      add_quantised(name, t, tensors);
    else
      tensors.push_back({name, t.dtype, t.shape, std::string(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size())});
  }
  (void)dir.write("model.safetensors", model::test::safetensors_of(tensors));
}

struct Started {
  std::string error;
  std::string weights;  // what config and plan say of them
  std::size_t weight_bytes = 0;
  DType kv_dtype = DType::kF32;
  ops::Weight down;  // of the last layer; pointers are gone
  std::vector<float> kv_scales;
};

Started start(const std::string& model_dir, const std::vector<std::string>& flags) {
  std::vector<std::string> line{"serve", model_dir, "--kv-cache-memory-bytes", "8M", "--max-num-seqs", "4", "--max-num-batched-tokens", "64"};
  line.insert(line.end(), flags.begin(), flags.end());
  const auto command = config::parse_command_line(line);
  QUIRE_CHECK(command.ok()) << command.error().message;
  StartupTimeline timeline;
  Started out;
  const auto prepared = prepare(std::get<config::ServeCommand>(command.value()).options, timeline);
  if (!prepared.ok()) {
    out.error = prepared.error().message;
    return out;
  }
  const auto metrics = std::make_shared<engine::Metrics>(metrics_config(prepared->config));
  engine::HealthMonitor health;
  const auto checked = load_checked(prepared.value(), *metrics, health, timeline);  // ends the process when memory is not as planned
  if (!checked.ok()) {
    out.error = checked.error().message;
    return out;
  }
  EXPECT_TRUE(checked->report.passed()) << checked->report.failure();
  out.weights = prepared->config.model.quant.summary();
  out.kv_dtype = prepared->config.engine.kv_dtype;
  out.down = checked->memory->weights->layers().back().down;
  for (const MemoryItem& item : memory_items(*checked->memory->device, 0))
    if (item.name == "weights") out.weight_bytes = item.bytes;
  out.kv_scales = checked->scales.store_scales();
  return out;
}

TEST(QuantisedStart, AStaticCheckpointServesWithItsCache) {
  const TempDir dir;
  write_quantised(dir, kStatic);
  const Started s = start(dir.path(), {});
  ASSERT_EQ(s.error, "");
  EXPECT_EQ(s.weights, "fp8: 42 of 42 linear layers: tensor weights, static inputs");
  EXPECT_EQ(s.down.format, ops::WeightFormat::kFp8E4m3);
  EXPECT_EQ(s.down.input.scaling, ops::ActScaling::kStatic);
  EXPECT_EQ(s.kv_dtype, DType::kFp8E4m3) << "auto is what the checkpoint declares";
  EXPECT_EQ(s.kv_scales, std::vector<float>(24, 0.125f));
  const Started plain = start(kModel, {});
  EXPECT_LT(s.weight_bytes, plain.weight_bytes * 2 / 3);
  EXPECT_EQ(start(dir.path(), {"--quantization", "fp8"}).weights, s.weights);
  EXPECT_EQ(start(dir.path(), {"--kv-cache-dtype", "bfloat16"}).kv_dtype, DType::kBF16);
}

TEST(QuantisedStart, FnuzServesTheSame) {
  const TempDir dir;
  write_quantised(dir, kStatic);
  setenv("QUIRE_FP8_FLAVOR", "fnuz", 1);
  const Started s = start(dir.path(), {});
  unsetenv("QUIRE_FP8_FLAVOR");
  ASSERT_EQ(s.error, "");
  EXPECT_EQ(s.down.format, ops::WeightFormat::kFp8E4m3Fnuz);
  EXPECT_EQ(s.down.input.scales[0], 0.1f);
  EXPECT_EQ(s.kv_scales, std::vector<float>(24, 0.25f));
}

TEST(QuantisedStart, OrdinaryWeightsAreQuantisedWhileLoading) {
  const Started s = start(kModel, {"--quantization", "fp8"});
  ASSERT_EQ(s.error, "");
  EXPECT_THAT(s.weights, HasSubstr("made while loading"));
  EXPECT_EQ(s.down.format, ops::WeightFormat::kFp8E4m3);
  EXPECT_EQ(s.down.input.scaling, ops::ActScaling::kPerToken);
  EXPECT_EQ(s.kv_dtype, DType::kBF16);
}

TEST(QuantisedStart, DummyWeightsOfAQuantisedConfig) {
  const TempDir dir;
  write_quantised(dir, kStatic);
  std::filesystem::remove(dir.path() + "/model.safetensors");
  const Started s = start(dir.path(), {"--load-format", "dummy"});
  ASSERT_EQ(s.error, "");
  EXPECT_EQ(s.down.format, ops::WeightFormat::kFp8E4m3);
}

TEST(QuantisedStart, RefusalsNameBothSides) {
  const TempDir dir;
  write_quantised(dir, kStatic);
  EXPECT_THAT(start(dir.path(), {"--quantization", "quark"}).error, AllOf(HasSubstr("--quantization 'quark'"), HasSubstr("the checkpoint is quantised by 'fp8'")));
  EXPECT_THAT(start(kModel, {"--quantization", "quark"}).error, HasSubstr("the checkpoint declares no quantisation"));
  EXPECT_THAT(start(dir.path(), {"--kv-cache-dtype", "fp8_e5m2"}).error, HasSubstr("--kv-cache-dtype fp8_e5m2: not over a checkpoint of FP8 weights"));
  EXPECT_THAT(start(kModel, {"--quantization", "fp8", "--kv-cache-dtype", "fp8_e5m2"}).error, Not(HasSubstr("fp8_e5m2"))) << "the checkpoint is not FP8";
}

}  // namespace
}  // namespace quire::commands
