// KV scales through serve's own loading: what the checkpoint says reaches the device's cache, the ledger and /quire/scales, or start-up refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdlib>

#include "commands/startup.h"
#include "config/command_line.h"
#include "kit/temp_dir.h"
#include "model/checkpoint_files.h"

namespace quire::commands {
namespace {

using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kModel[] = QUIRE_SOURCE_DIR "/models/gsm-tiny";  // 6 layers, 2 KV heads

// Layer n: keys 0.25 + n, values 8 + n.
std::vector<model::test::RawTensor> scales_of(int num_layers) {
  std::vector<model::test::RawTensor> out;
  for (int n = 0; n < num_layers; ++n) {
    const std::string layer = "model.layers." + std::to_string(n) + ".self_attn.";
    out.push_back(model::test::counting_tensor(layer + "k_proj.output_scale", {1}, 0.25f + static_cast<float>(n)));
    out.push_back(model::test::counting_tensor(layer + "v_proj.output_scale", {1}, 8.0f + static_cast<float>(n)));
  }
  return out;
}

std::vector<float> expected_scales(float factor) {
  std::vector<float> out;
  for (int n = 0; n < 6; ++n)
    for (const float first : {0.25f, 0.25f, 8.0f, 8.0f}) out.push_back(factor * (first + static_cast<float>(n)));
  return out;
}

struct Loaded {
  std::string error;
  std::vector<float> scales;  // on the device
  std::string ledger;         // as text
  model::ScaleSource source = model::ScaleSource::kUnquantised;
  std::vector<std::string> warnings;
};

Loaded load(const std::string& model_dir, const std::vector<std::string>& flags) {
  std::vector<std::string> line{"serve", model_dir, "--kv-cache-memory-bytes", "8M", "--max-num-seqs", "4", "--enforce-eager"};
  line.insert(line.end(), flags.begin(), flags.end());
  const auto command = config::parse_command_line(line);
  QUIRE_CHECK(command.ok()) << command.error().message;
  StartupTimeline timeline;
  const auto prepared = prepare(std::get<config::ServeCommand>(command.value()).options, timeline);
  QUIRE_CHECK(prepared.ok()) << prepared.error().message;
  const auto metrics = std::make_shared<engine::Metrics>(metrics_config(prepared->config));
  engine::HealthMonitor health;
  Loaded out;
  const auto checked = load_checked(prepared.value(), *metrics, health, timeline);
  if (!checked.ok()) {
    out.error = checked.error().message;
    return out;
  }
  const kv::KvStore& kv = *checked->memory->kv;
  out.scales.assign(kv.scales(), kv.scales() + kv::KvStore::num_scales(kv.layout()));
  out.ledger = model::scale_ledger_text(checked->scales);
  out.source = checked->scales.source;
  out.warnings = checked->scales.warnings();
  EXPECT_TRUE(checked->report.passed()) << checked->report.failure();
  return out;
}

// QUIRE_FP8_FLAVOR for one test.
class Flavor {
 public:
  explicit Flavor(const char* name) { setenv("QUIRE_FP8_FLAVOR", name, 1); }
  ~Flavor() { unsetenv("QUIRE_FP8_FLAVOR"); }
  Flavor(const Flavor&) = delete;
  Flavor& operator=(const Flavor&) = delete;
};

TEST(KvScalesAtStart, TheCheckpointsScalesReachTheCache) {
  const TempDir dir;
  model::test::copy_model_with(kModel, scales_of(6), dir.path());
  const Loaded ocp = load(dir.path(), {"--kv-cache-dtype", "fp8"});
  EXPECT_EQ(ocp.error, "");
  EXPECT_EQ(ocp.scales, expected_scales(1.0f));
  EXPECT_EQ(ocp.source, model::ScaleSource::kCheckpoint);
  EXPECT_THAT(ocp.ledger, HasSubstr("keys and values of 6 of 6 layers from the checkpoint (rule 7)"));
  {
    const Flavor fnuz("fnuz");
    const Loaded doubled = load(dir.path(), {"--kv-cache-dtype", "fp8"});
    EXPECT_EQ(doubled.scales, expected_scales(2.0f));
    EXPECT_THAT(doubled.ledger, HasSubstr("factor 2 for FNUZ applied"));
  }
  const Loaded e5m2 = load(dir.path(), {"--kv-cache-dtype", "fp8_e5m2"});
  EXPECT_EQ(e5m2.scales, std::vector<float>(24, 1.0f));
  EXPECT_THAT(e5m2.ledger, HasSubstr("12 scales of the checkpoint present, not applied"));
  const Loaded wide = load(dir.path(), {});
  EXPECT_THAT(wide.scales, IsEmpty());
  EXPECT_THAT(wide.ledger, AllOf(HasSubstr("bfloat16: no scales; 12 scales of the checkpoint present, not applied"), HasSubstr("(the cache is bfloat16)")));
}

TEST(KvScalesAtStart, WithoutScalesOnesAreInUseAndWarnedOf) {
  const Loaded bare = load(kModel, {"--kv-cache-dtype", "fp8"});
  EXPECT_EQ(bare.error, "");
  EXPECT_EQ(bare.scales, std::vector<float>(24, 1.0f));
  EXPECT_EQ(bare.source, model::ScaleSource::kDefault);
  EXPECT_THAT(bare.warnings, ::testing::ElementsAre(HasSubstr("without scales")));
}

TEST(KvScalesAtStart, CalculatedOnceOnTheBuiltInTextAndTheSameEveryTime) {
  const Loaded first = load(kModel, {"--kv-cache-dtype", "fp8", "--calculate-kv-scales"});
  EXPECT_EQ(first.error, "");
  EXPECT_EQ(first.source, model::ScaleSource::kCalculated);
  EXPECT_THAT(first.warnings, IsEmpty());
  EXPECT_THAT(first.ledger, AllOf(HasSubstr("scales of all 6 layers calculated at start on the built-in text"), HasSubstr("calculated  -")));
  for (const float s : first.scales) EXPECT_TRUE(s > 1e-4f && s != 1.0f && s < 10.0f) << s;
  EXPECT_EQ(load(kModel, {"--kv-cache-dtype", "fp8", "--calculate-kv-scales"}).scales, first.scales);
  // Smaller windows see less context: other numbers, of the same size.
  const Loaded small = load(kModel, {"--kv-cache-dtype", "fp8", "--calculate-kv-scales", "--max-num-batched-tokens", "64"});
  for (std::size_t i = 0; i < first.scales.size(); ++i) EXPECT_NEAR(small.scales[i], first.scales[i], 0.5f * first.scales[i]);
  setenv("K_SCALE_CONSTANT", "400", 1);
  const Loaded other = load(kModel, {"--kv-cache-dtype", "fp8", "--calculate-kv-scales"});
  unsetenv("K_SCALE_CONSTANT");
  EXPECT_EQ(other.scales[0], first.scales[0] / 2);
  EXPECT_EQ(other.scales[2], first.scales[2]);
}

TEST(KvScalesAtStart, TheCheckpointsScalesWinOverACalculation) {
  const TempDir dir;
  model::test::copy_model_with(kModel, scales_of(6), dir.path());
  const Loaded loaded = load(dir.path(), {"--kv-cache-dtype", "fp8", "--calculate-kv-scales"});
  EXPECT_EQ(loaded.scales, expected_scales(1.0f));
  EXPECT_THAT(loaded.warnings, ::testing::ElementsAre(HasSubstr("--calculate-kv-scales has no effect: the checkpoint has KV scales")));
}

TEST(KvScalesAtStart, WithoutAnE4m3CacheThereIsNothingToCalculate) {
  for (const char* kv : {"auto", "fp8_e5m2"}) {
    StartupTimeline timeline;
    const std::vector<std::string> line{"serve", kModel, "--kv-cache-dtype", kv, "--calculate-kv-scales"};
    const Prepared prepared = prepare(std::get<config::ServeCommand>(config::parse_command_line(line).value()).options, timeline).value();
    EXPECT_FALSE(prepared.config.engine.calculate_kv_scales);
    const auto& notes = prepared.config.adjustments;
    EXPECT_TRUE(std::ranges::any_of(notes, [](const auto& n) { return n.flag == "--calculate-kv-scales" && n.severity == config::Adjustment::Severity::kWarning && n.text.starts_with("has no effect: the KV cache is "); })) << kv;
  }
}

TEST(KvScalesAtStart, RefusalsNameTheTensor) {
  {
    const TempDir dir;
    model::test::copy_model_with(kModel, scales_of(5), dir.path());
    EXPECT_THAT(load(dir.path(), {"--kv-cache-dtype", "fp8"}).error, AllOf(HasSubstr("layer 5 has no KV scale"), HasSubstr("--relaxed kv-scales")));
    EXPECT_EQ(load(dir.path(), {"--kv-cache-dtype", "fp8", "--relaxed", "kv-scales"}).source, model::ScaleSource::kPartly);
  }
  const TempDir dir;
  auto extra = scales_of(6);
  extra.push_back(model::test::counting_tensor("model.layers.2.mlp.down_proj.output_scale", {}, 1.0f));
  model::test::copy_model_with(kModel, extra, dir.path());
  EXPECT_THAT(load(dir.path(), {}).error, HasSubstr("model.layers.2.mlp.down_proj.output_scale"));
  EXPECT_THAT(load(dir.path(), {"--relaxed", "unused-tensors"}).error, HasSubstr("model.layers.2.mlp.down_proj.output_scale")) << "a scale is more than an unused tensor";
  const Loaded relaxed = load(dir.path(), {"--kv-cache-dtype", "fp8", "--relaxed", "kv-scales"});
  EXPECT_EQ(relaxed.scales, expected_scales(1.0f));
  EXPECT_THAT(relaxed.warnings, ::testing::ElementsAre(HasSubstr("model.layers.2.mlp.down_proj.output_scale")));
}

TEST(KvScalesAtStart, TheServersAnswerIsTheLedger) {
  const auto command = config::parse_command_line(std::vector<std::string>{"serve", kModel, "--kv-cache-memory-bytes", "8M", "--max-num-seqs", "4", "--enforce-eager", "--kv-cache-dtype", "fp8"});
  StartupTimeline timeline;
  const Prepared prepared = prepare(std::get<config::ServeCommand>(command.value()).options, timeline).value();
  engine::HealthMonitor health;
  const auto loaded = LoadedModel::load(prepared, std::make_shared<engine::Metrics>(metrics_config(prepared.config)), health, timeline);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto served = boost::json::parse(api_model(prepared, loaded.value().get())->kv_scales_json);
  EXPECT_EQ(served.at("source").as_string(), "default");
  EXPECT_EQ(served.at("scales").as_array().size(), 24u);
  EXPECT_EQ(served.at("warnings").as_array().size(), 1u);
  loaded.value()->engine()->stop(std::chrono::milliseconds(0));
}

}  // namespace
}  // namespace quire::commands
