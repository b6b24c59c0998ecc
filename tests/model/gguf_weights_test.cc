// Tensors of a GGUF file under our names: both sides of the ledger, the order of rows, and the numbers of every element type.
#include "model/gguf_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "kit/gguf_encode.h"
#include "kit/gguf_model.h"
#include "kit/temp_dir.h"
#include "model/gguf_architectures.h"
#include "model/kept_blocks.h"
#include "reference/gguf_blocks.h"

namespace quire::model {
namespace {

using ::quire::test::GgufModel;
using ::quire::test::GgufWriter;
using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char kGsmTiny[] = QUIRE_SOURCE_DIR "/models/gsm-tiny";

// A file in a folder of its own.
struct Opened {
  TempDir dir;
  std::string path;
  ModelSpec spec;
  std::unique_ptr<WeightSource> source;
  std::string error;
  std::string plan_error;  // of check_checkpoint

  explicit Opened(const GgufModel& model, const WeightRules& rules = {}) : path(dir.write("m.gguf", test::gguf_file_of(model))), spec(read_model_spec(path).value()) {
    auto opened = open_checkpoint_weights(path, spec, rules);
    if (opened.ok())
      source = std::move(opened).value();
    else
      error = opened.error().message;
    const Status checked = check_checkpoint(path, spec);
    plan_error = checked.ok() ? "" : checked.error().message;
  }
};

std::vector<float> floats_of(const WeightSource::Raw& raw) {
  std::vector<float> out(raw.bytes.size() / dtype_bytes(raw.dtype));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    if (raw.dtype == DType::kF32)
      std::memcpy(&out[i], raw.bytes.data() + 4 * i, 4);
    else
      std::memcpy(&bits, raw.bytes.data() + 2 * i, 2), out[i] = raw.dtype == DType::kF16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
  }
  return out;
}

class Types : public ::testing::TestWithParam<const char*> {};

// Each parameter holds the twin's numbers of its encoded rows, rounded once, in the order of the folder.
TEST_P(Types, AreTheFoldersNumbers) {
  const std::string type = GetParam();
  Opened opened(test::gguf_model(kGsmTiny, type));
  ASSERT_EQ(opened.error, "");
  EXPECT_EQ(opened.plan_error, "");
  EXPECT_TRUE(opened.source->ignored_tensors().empty());
  const Checkpoint folder = Checkpoint::open(kGsmTiny).value();
  for (const ParameterSpec& p : parameters_of(opened.spec)) {
    const auto raw = opened.source->read(p);
    ASSERT_TRUE(raw.ok()) << raw.error().message;
    const std::vector<float> got = floats_of(raw.value()), values = test::folder_values(folder, p.name);
    ASSERT_EQ(got.size(), values.size()) << p.name;
    const bool blocks = type.starts_with("Q") && p.shape.size() == 2;
    EXPECT_EQ(raw->dtype, blocks || p.shape.size() == 1 || type == "F32" ? DType::kF32 : type == "F16" ? DType::kF16 : DType::kBF16);
    const std::string encoded = blocks ? test::gguf_encode(type, values) : std::string();
    const std::vector<double> twin = blocks ? reference::gguf_dequantise(type, std::as_bytes(std::span(encoded))) : std::vector<double>(values.begin(), values.end());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto want = static_cast<float>(twin[i]);
      ASSERT_EQ(got[i], type == "F16" && p.shape.size() == 2 ? to_float(to_float16(want)) : want) << p.name << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Types, ::testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"), [](const auto& p) { return std::string(p.param); });

TEST(GgufWeights, TypesMayDiffer) {
  GgufModel model = test::gguf_model(kGsmTiny, "");
  model.type_of = [](const std::string& name) { return name.starts_with("token_embd") ? "Q8_0" : name.find("attn_q") != std::string::npos ? "Q6_K" : name.find("attn_v") != std::string::npos ? "BF16" : "Q4_K"; };
  Opened opened(model);
  ASSERT_EQ(opened.error, "");
  EXPECT_EQ(opened.spec.gguf->matrices, "30 Q4_K, 6 BF16, 6 Q6_K, 1 Q8_0");
  for (const ParameterSpec& p : parameters_of(opened.spec)) EXPECT_TRUE(opened.source->read(p).ok()) << p.name;
}

// As the file holds them, rows in the model's order.
TEST(GgufWeights, BlocksAreTheFoldersRowsEncoded) {
  Opened opened(test::gguf_model(kGsmTiny, "Q4_1"));
  ASSERT_EQ(opened.error, "");
  const Checkpoint folder = Checkpoint::open(kGsmTiny).value();
  EXPECT_EQ(opened.spec.gguf->blocks.size(), 43u);
  for (const ParameterSpec& p : parameters_of(opened.spec)) {
    if (p.shape.size() != 2) continue;
    const auto blocks = opened.source->read_blocks(p);
    ASSERT_TRUE(blocks.ok());
    EXPECT_EQ(blocks->type, gguf::TensorType::kQ4_1);
    EXPECT_TRUE(std::string(reinterpret_cast<const char*>(blocks->bytes.data()), blocks->bytes.size()) == test::gguf_encode("Q4_1", test::folder_values(folder, p.name))) << p.name;
  }
}

TEST(GgufWeights, WhatStaysInBlocks) {
  const Opened opened(test::gguf_model(kGsmTiny, "Q8_0"));
  ModelSpec spec = opened.spec;
  EXPECT_EQ(kept_blocks(spec, GgufWeights::kBlocks).kept, "43 Q8_0");
  EXPECT_TRUE(kept_blocks(spec, GgufWeights::kBlocks).dequantised.empty());
  EXPECT_EQ(kept_blocks(spec, GgufWeights::kDequantised).kept, "");
  spec.quant = {.method = QuantMethod::kFp8, .on_load = true};
  spec.quant.layers.resize(static_cast<std::size_t>(spec.num_layers));
  for (LayerSchemes& layer : spec.quant.layers) layer.fill({WeightScaling::kTensor, InputScaling::kPerToken});
  EXPECT_EQ(kept_blocks(spec, GgufWeights::kBlocks).kept, "") << "made FP8 while loading";
  EXPECT_EQ(kept_blocks(read_model_spec(kGsmTiny).value(), GgufWeights::kBlocks).kept, "");
}

TEST(GgufWeights, ThreadsReadApart) {
  Opened opened(test::gguf_model(kGsmTiny, "Q8_0"));
  ASSERT_EQ(opened.error, "");
  const auto parameters = parameters_of(opened.spec);
  const auto matrix = [&](const char* part) { return *std::ranges::find_if(parameters, [&](const ParameterSpec& p) { return p.name.find(part) != std::string::npos; }); };
  const ParameterSpec q = matrix("q_proj.weight"), down = matrix("down_proj.weight");
  const auto first = opened.source->read(q).value();
  const std::vector<float> before = floats_of(first);
  std::thread([&] { (void)opened.source->read(down); }).join();
  EXPECT_EQ(floats_of(first), before);
}

TEST(GgufWeights, MissingTensorsAreNamed) {
  GgufModel model = test::gguf_model(kGsmTiny, "F16");
  model.without = {"blk.3.ffn_up.weight", "output_norm.weight"};
  const Opened opened(model);
  for (const std::string& error : {opened.error, opened.plan_error}) EXPECT_THAT(error, AllOf(HasSubstr("m.gguf: 2 missing tensors: "), HasSubstr("blk.3.ffn_up.weight"), HasSubstr("output_norm.weight")));
}

TEST(GgufWeights, WrongShapesAreNamed) {
  GgufModel model = test::gguf_model(kGsmTiny, "F16");
  model.without = {"blk.1.attn_k.weight"};
  model.more = [](GgufWriter& w) { w.tensor("blk.1.attn_k.weight", {256, 64}, 1, std::string(256 * 64 * 2, '\0')); };
  const Opened opened(model);
  for (const std::string& error : {opened.error, opened.plan_error}) EXPECT_THAT(error, HasSubstr("1 tensors of another shape: blk.1.attn_k.weight is [64, 256], the metadata say [128, 256]"));
}

TEST(GgufWeights, VectorsInBlocksAreNamed) {
  GgufModel model = test::gguf_model(kGsmTiny, "F16");
  model.without = {"blk.1.attn_norm.weight"};
  model.more = [](GgufWriter& w) { w.tensor("blk.1.attn_norm.weight", {256}, test::gguf_type_id("Q8_0"), std::string(256 / 32 * 34, '\0')); };
  EXPECT_THAT(Opened(model).error, HasSubstr("1 vectors in blocks: blk.1.attn_norm.weight is Q8_0"));
}

TEST(GgufWeights, UnknownTensorsAreRefusedUnlessRelaxed) {
  GgufModel model = test::gguf_model(kGsmTiny, "F16");
  model.more = [](GgufWriter& w) { w.tensor("blk.0.attn_q_norm.weight", {64}, 0, std::string(256, '\0')); };
  const Opened refused(model);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("1 tensors that LlamaForCausalLM does not use: \"blk.0.attn_q_norm.weight\""), HasSubstr("--relaxed unused-tensors")));
  const Opened relaxed(model, {.unused = UnusedTensors::kRelaxed});
  ASSERT_EQ(relaxed.error, "");
  EXPECT_EQ(relaxed.source->ignored_tensors(), std::vector<std::string>{"\"blk.0.attn_q_norm.weight\""});
}

TEST(GgufWeights, DivisorsOfFrequenciesAreUsed) {
  GgufModel model = test::gguf_model(kGsmTiny, "F16");
  std::string ones;
  for (int i = 0; i < 32; ++i) ones += test::raw_bytes(1.0f);
  model.more = [&](GgufWriter& w) { w.tensor("rope_freqs.weight", {32}, 0, ones); };
  const Opened opened(model);
  EXPECT_EQ(opened.error, "");
  EXPECT_EQ(opened.spec.rope.divisors.size(), 32u);
}

TEST(GgufWeights, NanIsNamedByTensor) {
  for (const auto& [type, nan_at] : {std::pair("Q4_0", 0), {"F32", 2}}) {
    GgufModel model = test::gguf_model(kGsmTiny, type);
    model.without = {"blk.2.attn_output.weight"};
    std::string bytes = test::gguf_encode(type, std::vector<float>(256 * 256, 0.25f));
    bytes[static_cast<std::size_t>(nan_at)] = '\xff';
    bytes[static_cast<std::size_t>(nan_at) + 1] = '\x7f';
    model.more = [&](GgufWriter& w) { w.tensor("blk.2.attn_output.weight", {256, 256}, test::gguf_type_id(type), bytes); };
    Opened opened(model);
    ASSERT_EQ(opened.error, "") << type;
    for (const ParameterSpec& p : parameters_of(opened.spec)) {
      const auto raw = opened.source->read(p);
      if (p.name != "model.layers.2.self_attn.o_proj.weight") {
        EXPECT_TRUE(raw.ok()) << p.name;
      } else {
        ASSERT_FALSE(raw.ok()) << type;
        EXPECT_THAT(raw.error().message, AllOf(HasSubstr("tensor \"blk.2.attn_output.weight\" of shape [256, 256] holds NaN or infinity, first at element 0"), HasSubstr("m.gguf")));
      }
    }
  }
}

TEST(GgufWeights, ATruncatedFileIsRefused) {
  TempDir dir;
  const std::string whole = test::gguf_file_of(test::gguf_model(kGsmTiny, "Q8_0"));
  for (const std::size_t keep : {std::size_t{3}, std::size_t{500}, whole.size() / 2, whole.size() - 1}) {
    const auto spec = read_model_spec(dir.write("cut.gguf", whole.substr(0, keep)));
    ASSERT_FALSE(spec.ok()) << keep;
    EXPECT_THAT(spec.error().message, AllOf(HasSubstr("cut.gguf"), HasSubstr("truncated"))) << keep;
  }
}

// Every parameter that the walk of a family asks for has a name in its files.
TEST(GgufNames, CoverTheParameterWalk) {
  ModelSpec spec = read_model_spec(kGsmTiny).value();
  spec.tie_word_embeddings = false;
  spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  const GgufArchitecture& llama = *gguf_architecture("llama");
  std::set<std::string> names;
  for (const ParameterSpec& p : parameters_of(spec)) {
    const std::string name = gguf_tensor_name(llama, p.name);
    EXPECT_EQ(name, test::gguf_name_of(p.name));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(gguf_tensor_name(llama, "model.layers.0.self_attn.rotary.weight"), "");
  EXPECT_EQ(gguf_tensor_name(llama, "nothing"), "");
}

}  // namespace
}  // namespace quire::model
