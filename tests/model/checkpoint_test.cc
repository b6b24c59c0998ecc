// Checkpoints as a whole: shards against their index, files against the model, and the two kinds of weight source.
#include "model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint_files.h"
#include "kit/seed.h"
#include "kit/temp_dir.h"

namespace quire::model::test {
namespace {

using ::quire::test::seeded_rng;
using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char kGsmTiny[] = QUIRE_SOURCE_DIR "/models/gsm-tiny";

std::string open_error(const std::string& dir) {
  auto checkpoint = Checkpoint::open(dir);
  return checkpoint.ok() ? "opened" : checkpoint.error().message;
}

std::string weights_error(const std::string& dir, const ModelSpec& spec, const WeightRules& rules = {}) {
  auto weights = open_checkpoint_weights(dir, spec, rules);
  return weights.ok() ? "opened" : weights.error().message;
}

TEST(GsmTiny, OpensWithEveryTensorOnce) {
  auto checkpoint = Checkpoint::open(kGsmTiny);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 56u);
  auto spec = read_model_spec(kGsmTiny);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  auto weights = open_checkpoint_weights(kGsmTiny, spec.value(), {});
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_EQ(parameters_of(spec.value()).size(), 56u);
  std::uint64_t bytes = 0;
  for (const ParameterSpec& parameter : parameters_of(spec.value())) {
    auto raw = weights.value()->read(parameter);
    ASSERT_TRUE(raw.ok()) << raw.error().message;
    EXPECT_EQ(raw->dtype, DType::kBF16);
    bytes += raw->bytes.size();
  }
  EXPECT_EQ(bytes, checkpoint->total_bytes());
  EXPECT_TRUE(weights.value()->ignored_tensors().empty());
}

// --- shards and their index ---

constexpr char kIndexName[] = "model.safetensors.index.json";

// Two shards "a.safetensors" {x: 8 bytes, y: 4 bytes} and "b.safetensors" {z: 16 bytes}.
void write_shards(const TempDir& dir) {
  (void)dir.write("a.safetensors", safetensors_of({counting_tensor("x", {2}), counting_tensor("y", {1})}));
  (void)dir.write("b.safetensors", safetensors_of({counting_tensor("z", {2, 2})}));
}

TEST(Shards, OpenWithAConsistentIndex) {
  TempDir dir;
  write_shards(dir);
  (void)dir.write(kIndexName,
                  R"({"metadata": {"total_size": 28}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})");
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->total_bytes(), 28u);
  const CheckpointTensor& z = checkpoint->tensors().at("z");
  EXPECT_EQ(z.file, "b.safetensors");
  float last = 0;
  ASSERT_EQ(z.bytes.size(), 16u);
  std::memcpy(&last, z.bytes.data() + 12, 4);
  EXPECT_EQ(last, 3.0f);
}

TEST(Shards, InconsistentIndexesAreRefused) {
  struct Case {
    const char* index;
    const char* message;
  };
  const Case cases[] = {
      {R"({"weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors", "w": "b.safetensors"}})",
       "tensor \"w\" in \"b.safetensors\", which does not hold it"},
      {R"({"weight_map": {"x": "a.safetensors", "z": "b.safetensors"}})", "tensor \"y\" of \"a.safetensors\" is missing from weight_map"},
      {R"({"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})", "but it is in \"a.safetensors\""},
      {R"({"metadata": {"total_size": 29}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})",
       "total_size is 29, the tensors take 28"},
      {R"({"metadata": {"total_size": -28}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})", "total_size is -28"},
      {R"({"metadata": {"total_size": "28"}, "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})", "not a byte count"},
      {R"({"weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "c.safetensors"}})", "c.safetensors: cannot open"},
      {R"({"weight_map": {"x": "../a.safetensors"}})", "not a plain file name"},
      {R"({"weight_map": {"x": "/etc/passwd"}})", "not a plain file name"},
      {R"({"weight_map": {"x": ".."}})", "not a plain file name"},
      {R"({"weight_map": {"x": ""}})", "not a plain file name"},
      {R"({"weight_map": {"x": "a.safetensors\u0000.txt"}})", "not a plain file name"},
      {R"({"weight_map": {"x": 3}})", "must be a file name"},
      {R"({"weight_map": [1]})", "weight_map must be an object"},
      {R"({})", "weight_map must be an object"},
      {R"([])", "must be a JSON object"},
      {R"({"weight_map": {"x": "a.safetensors", "x": "b.safetensors"}})", "\"x\" stands twice"},
      {R"({"weight_map")", "invalid JSON"},
  };
  for (const Case& c : cases) {
    TempDir dir;
    write_shards(dir);
    (void)dir.write(kIndexName, c.index);
    EXPECT_THAT(open_error(dir.path()), HasSubstr(c.message)) << c.index;
  }
}

TEST(Shards, TheSameTensorInTwoShardsIsRefused) {
  TempDir dir;
  (void)dir.write("a.safetensors", safetensors_of({counting_tensor("x", {2})}));
  (void)dir.write("b.safetensors", safetensors_of({counting_tensor("x", {2}), counting_tensor("y", {1})}));
  (void)dir.write(kIndexName, R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("tensor \"x\" is also in \"a.safetensors\""));
}

TEST(Shards, TwoAnswersToWhatTheWeightsAreIsRefused) {
  TempDir dir;
  write_shards(dir);
  (void)dir.write("model.safetensors", safetensors_of({counting_tensor("x", {2})}));
  (void)dir.write(kIndexName, R"({"weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}})");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("remove the one"));
}

TEST(Shards, MissingWeightsNameWhatLiesThereInstead) {
  TempDir dir;
  (void)dir.write("pytorch_model.bin", "x");
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(checkpoint.error().message, AllOf(HasSubstr("no model.safetensors"), HasSubstr("pytorch_model.bin")));
  EXPECT_THAT(open_error(dir.path() + "/absent"), HasSubstr("no model.safetensors"));
}

TEST(Shards, AFolderInPlaceOfAFileIsRefused) {
  TempDir dir;
  (void)dir.write("model.safetensors/inner", "x");
  EXPECT_THAT(open_error(dir.path()), HasSubstr("not a regular file"));
}

// --- files against the model ---

void write_model(const TempDir& dir, const std::vector<RawTensor>& tensors) { (void)dir.write("model.safetensors", safetensors_of(tensors)); }

RawTensor& find(std::vector<RawTensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const RawTensor& t) { return t.name == name; });
}

TEST(Parameters, BiasesAndTiedHeadsChangeTheList) {
  ModelSpec spec = tiny_spec();
  EXPECT_EQ(parameters_of(spec).size(), 2u * 9 + 3);
  EXPECT_EQ(parameters_of(spec).back().name, "lm_head.weight");
  spec.tie_word_embeddings = true;
  EXPECT_EQ(parameters_of(spec).size(), 2u * 9 + 2);
  spec.qkv_bias = spec.o_bias = true;
  EXPECT_EQ(parameters_of(spec).size(), 2u * (9 + 4) + 2);
  spec.mlp_bias = true;
  EXPECT_EQ(parameters_of(spec).size(), 2u * (9 + 7) + 2);
  for (const ParameterSpec& parameter : parameters_of(spec)) {
    if (parameter.name.ends_with("k_proj.weight")) {
      EXPECT_EQ(parameter.shape, (std::vector<std::int64_t>{4, 8}));
    }
    if (parameter.name.ends_with("k_proj.bias")) {
      EXPECT_EQ(parameter.shape, (std::vector<std::int64_t>{4}));
    }
    if (parameter.name.ends_with("down_proj.weight")) {
      EXPECT_EQ(parameter.shape, (std::vector<std::int64_t>{8, 12}));
    }
  }
}

TEST(Ledger, ReadsBackWhatWasWritten) {
  TempDir dir;
  const ModelSpec spec = tiny_spec();
  const std::vector<RawTensor> tensors = tensors_for(spec);
  write_model(dir, tensors);
  auto weights = open_checkpoint_weights(dir.path(), spec, {});
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  const auto parameters = parameters_of(spec);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto raw = weights.value()->read(parameters[i]);
    ASSERT_TRUE(raw.ok());
    ASSERT_EQ(raw->bytes.size(), tensors[i].bytes.size());
    EXPECT_EQ(std::memcmp(raw->bytes.data(), tensors[i].bytes.data(), raw->bytes.size()), 0) << parameters[i].name;
  }
}

TEST(Ledger, MissingTensorsAreAllCountedAndTheFirstTenNamed) {
  TempDir dir;
  const ModelSpec spec = tiny_spec();
  write_model(dir, {tensors_for(spec).front()});
  EXPECT_THAT(weights_error(dir.path(), spec), AllOf(HasSubstr("20 missing tensors: model.layers.0.input_layernorm.weight"), HasSubstr("and 10 more"),
                                                     HasSubstr("tie_word_embeddings false")));
}

TEST(Ledger, WrongShapesAndTypesAreNamedWithBothSides) {
  const ModelSpec spec = tiny_spec();
  auto tensors = tensors_for(spec);
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  find(tensors, name).shape = {8, 12};
  RawTensor& norm = find(tensors, "model.norm.weight");
  norm.dtype = "F8_E4M3";
  norm.bytes.resize(8);
  TempDir dir;
  write_model(dir, tensors);
  EXPECT_THAT(weights_error(dir.path(), spec),
              AllOf(HasSubstr(name + " is [8, 12], config.json says [12, 8]"), HasSubstr("model.norm.weight is F8_E4M3")));
}

TEST(Ledger, UnknownTensorsAreRefusedUnlessRelaxed) {
  const ModelSpec spec = tiny_spec();
  auto tensors = tensors_for(spec);
  tensors.push_back(counting_tensor("model.layers.0.self_attn.q_norm.weight", {4}));
  tensors.push_back(counting_tensor("model.layers.9.mlp.up_proj.weight", {12, 8}));
  TempDir dir;
  write_model(dir, tensors);
  EXPECT_THAT(weights_error(dir.path(), spec), AllOf(HasSubstr("2 tensors that LlamaForCausalLM does not use"), HasSubstr("q_norm.weight"),
                                                     HasSubstr("layers.9.mlp"), HasSubstr("unused-tensors")));
  auto relaxed = open_checkpoint_weights(dir.path(), spec, {.unused = UnusedTensors::kRelaxed});
  ASSERT_TRUE(relaxed.ok()) << relaxed.error().message;
  EXPECT_EQ(relaxed.value()->ignored_tensors().size(), 2u);
}

// The scale ledger's tensors count as used: exactly those, and only when it is asked.
TEST(Ledger, KvScalesAreUsedWhenTheScaleLedgerHasThem) {
  const ModelSpec spec = tiny_spec();
  auto tensors = tensors_for(spec);
  const std::vector<std::string> scales = {"model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.v_scale"};
  for (const std::string& name : scales) tensors.push_back(counting_tensor(name, {}, 0.5f));
  TempDir dir;
  write_model(dir, tensors);
  EXPECT_EQ(weights_error(dir.path(), spec, {.kv_scales = scales}), "opened");
  EXPECT_THAT(weights_error(dir.path(), spec, {.kv_scales = std::span(scales).first(1)}), AllOf(HasSubstr("1 tensors that LlamaForCausalLM does not use"), HasSubstr(scales[1])));
  EXPECT_THAT(weights_error(dir.path(), spec), HasSubstr("2 tensors that LlamaForCausalLM does not use"));
}

TEST(Ledger, ManyUnknownTensorsAreCounted) {
  const ModelSpec spec = tiny_spec();
  auto tensors = tensors_for(spec);
  for (int i = 0; i < 15; ++i) tensors.push_back(counting_tensor("extra." + std::to_string(i), {1}));
  TempDir dir;
  write_model(dir, tensors);
  EXPECT_THAT(weights_error(dir.path(), spec), AllOf(HasSubstr("15 tensors"), HasSubstr("and 5 more")));
}

TEST(Ledger, RotaryBuffersOfOldFilesAreIgnored) {
  const ModelSpec spec = tiny_spec();
  auto tensors = tensors_for(spec);
  tensors.push_back(counting_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", {2}));
  TempDir dir;
  write_model(dir, tensors);
  EXPECT_EQ(weights_error(dir.path(), spec), "opened");
}

TEST(Ledger, ATiedHeadMustEqualTheEmbedding) {
  ModelSpec spec = tiny_spec();
  spec.tie_word_embeddings = true;
  auto tensors = tensors_for(spec);
  RawTensor head = tensors.front();
  head.name = "lm_head.weight";
  tensors.push_back(head);
  {
    TempDir dir;
    write_model(dir, tensors);
    EXPECT_EQ(weights_error(dir.path(), spec), "opened");
  }
  tensors.back().bytes.back() ^= 1;
  TempDir dir;
  write_model(dir, tensors);
  EXPECT_THAT(weights_error(dir.path(), spec), HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
  EXPECT_THAT(weights_error(dir.path(), spec, {.unused = UnusedTensors::kRelaxed}), HasSubstr("differs")) << "--relaxed unused-tensors does not cover a contradiction";
}

// Each float type, NaN of both signs and infinity, at the first, an inner and the last element: the index is exact.
TEST(Ledger, NonFiniteWeightsAreRefusedNamingTheElement) {
  struct Case {
    const char* dtype;
    std::size_t width;
    std::uint32_t bits;
  };
  const Case cases[] = {{"F32", 4, 0x7fc00000u}, {"F32", 4, 0xff800001u}, {"F32", 4, 0x7f800000u}, {"F16", 2, 0x7e00u},
                        {"F16", 2, 0xfc00u},     {"BF16", 2, 0x7fc0u},    {"BF16", 2, 0xff80u}};
  ModelSpec spec = tiny_spec();
  spec.vocab_size = 300;  // 2400 elements: several blocks of the scan
  for (const Case& c : cases) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1023}, std::size_t{1024}, std::size_t{2399}}) {
      auto tensors = tensors_for(spec);
      tensors.front().dtype = c.dtype;
      tensors.front().bytes.assign(2400 * c.width, '\0');
      std::memcpy(tensors.front().bytes.data() + at * c.width, &c.bits, c.width);
      TempDir dir;
      write_model(dir, tensors);
      auto weights = open_checkpoint_weights(dir.path(), spec, {});
      ASSERT_TRUE(weights.ok()) << weights.error().message;
      auto raw = weights.value()->read(parameters_of(spec).front());
      ASSERT_FALSE(raw.ok()) << c.dtype << " " << at;
      EXPECT_EQ(raw.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(raw.error().message, AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("at element " + std::to_string(at))));
    }
  }
}

TEST(Ledger, TheLargestFiniteValuesPass) {
  ModelSpec spec = tiny_spec();
  auto tensors = tensors_for(spec);
  const float largest = -std::numeric_limits<float>::max();
  std::memcpy(tensors.front().bytes.data(), &largest, 4);
  TempDir dir;
  write_model(dir, tensors);
  auto weights = open_checkpoint_weights(dir.path(), spec, {});
  ASSERT_TRUE(weights.ok());
  EXPECT_TRUE(weights.value()->read(parameters_of(spec).front()).ok());
}

// --- dummy weights ---

std::string bytes_of(WeightSource& source, const ParameterSpec& parameter) {
  auto raw = source.read(parameter);
  EXPECT_TRUE(raw.ok());
  return {reinterpret_cast<const char*>(raw->bytes.data()), raw->bytes.size()};
}

TEST(DummyWeights, SameBitsInAnyOrderAndDifferentForSeedsAndNames) {
  const ModelSpec spec = tiny_spec();
  auto parameters = parameters_of(spec);
  auto forward = dummy_weights(spec, 7), shuffled = dummy_weights(spec, 7), other = dummy_weights(spec, 8);
  std::map<std::string, std::string> expected;
  for (const ParameterSpec& p : parameters) expected[p.name] = bytes_of(*forward, p);
  auto rng = seeded_rng();
  std::shuffle(parameters.begin(), parameters.end(), rng);
  for (const ParameterSpec& p : parameters) {
    EXPECT_EQ(bytes_of(*shuffled, p), expected[p.name]) << p.name;
    EXPECT_NE(bytes_of(*other, p), expected[p.name]) << p.name;
  }
  EXPECT_NE(expected["model.layers.0.mlp.up_proj.weight"], expected["model.layers.1.mlp.up_proj.weight"]);
}

// Element i does not depend on how many elements there are.
TEST(DummyWeights, AnElementDependsOnItsIndexAlone) {
  const ModelSpec spec = tiny_spec();
  auto source = dummy_weights(spec, 0);
  const std::string small = bytes_of(*source, {"w", {10}}), large = bytes_of(*source, {"w", {4, 100}});
  EXPECT_EQ(large.substr(0, small.size()), small);
}

// Pinned bits: a change of the generator would silently change every test and benchmark on dummy weights.
TEST(DummyWeights, PinnedValues) {
  const ModelSpec spec = tiny_spec();
  auto source = dummy_weights(spec, 0);
  const std::string bytes = bytes_of(*source, {"model.embed_tokens.weight", {4}});
  std::uint32_t words[4];
  std::memcpy(words, bytes.data(), 16);
  EXPECT_THAT(words, ::testing::ElementsAre(1000665461u, 1015923040u, 3144522317u, 3161503286u));
}

TEST(DummyWeights, LooksLikeTrainedWeights) {
  ModelSpec spec = tiny_spec();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    spec.dtype = dtype;
    auto source = dummy_weights(spec, 3);
    for (const char* name : {"model.layers.0.mlp.up_proj.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight"}) {
      constexpr std::size_t kCount = 100000;
      auto raw = source->read({name, {kCount}});
      ASSERT_TRUE(raw.ok());
      ASSERT_EQ(raw->dtype, dtype);
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        float x = 0;
        if (dtype == DType::kF32) {
          std::memcpy(&x, raw->bytes.data() + 4 * i, 4);
        }
        if (dtype == DType::kF16) {
          Float16 h;
          std::memcpy(&h, raw->bytes.data() + 2 * i, 2);
          x = to_float(h);
        }
        if (dtype == DType::kBF16) {
          BFloat16 h;
          std::memcpy(&h, raw->bytes.data() + 2 * i, 2);
          x = to_float(h);
        }
        ASSERT_TRUE(std::isfinite(x));
        sum += x;
        squares += double{x} * x;
      }
      const double mean = sum / kCount, deviation = std::sqrt(squares / kCount - mean * mean);
      EXPECT_NEAR(mean, std::string(name).ends_with("norm.weight") ? 1.0 : 0.0, 5e-4) << name;
      EXPECT_NEAR(deviation, 0.02, 5e-4) << name;
    }
  }
}

}  // namespace
}  // namespace quire::model::test
