// The scale ledger: every form of scale that exporters write, in every dtype and shape, for every kind of cache; and every refusal by name.
#include "model/kv_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint_files.h"
#include "model/checkpoint.h"
#include "model/kv_scales_json.h"

namespace quire::model::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
const std::string kSelfAttn0 = "model.layers.0.self_attn.", kSelfAttn1 = "model.layers.1.self_attn.";

// Two layers; 8 query heads, 2 KV heads.
ModelSpec spec_of_two_layers() {
  ModelSpec spec = tiny_spec();
  spec.num_heads = 8;
  spec.num_kv_heads = 2;
  return spec;
}

// A checkpoint's tensors.
class Tensors {
 public:
  Tensors& add(const std::string& name, std::vector<float> values, std::vector<std::int64_t> shape = {}, DType dtype = DType::kF32) {
    std::string bytes;
    for (const float x : values) {
      if (dtype == DType::kF32) append(bytes, x);
      if (dtype == DType::kF16) append(bytes, to_float16(x));
      if (dtype == DType::kBF16) append(bytes, to_bfloat16(x));
    }
    return add_raw(name, dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16", std::move(shape), bytes);
  }
  Tensors& add_raw(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape, const std::string& bytes) {
    tensors_[name] = RawTensor{name, dtype, std::move(shape), bytes};
    return *this;
  }
  // Keys and values of both layers, under `key` and `value` behind "model.layers.N.self_attn.".
  Tensors& add_layers(const std::string& key, const std::string& value, std::vector<std::int64_t> shape = {}, DType dtype = DType::kF32) {
    add(kSelfAttn0 + key, {0.25f}, shape, dtype).add(kSelfAttn0 + value, {0.5f}, shape, dtype);
    return add(kSelfAttn1 + key, {1.5f}, shape, dtype).add(kSelfAttn1 + value, {3.0f}, shape, dtype);
  }
  // Points into this object.
  [[nodiscard]] std::map<std::string, CheckpointTensor> map() const {
    std::map<std::string, CheckpointTensor> out;
    for (const auto& [name, t] : tensors_) out[name] = CheckpointTensor{t.dtype, t.shape, std::as_bytes(std::span(t.bytes)), "model.safetensors"};
    return out;
  }

 private:
  template <class T>
  static void append(std::string& bytes, T x) {
    char raw[sizeof x];
    std::memcpy(raw, &x, sizeof x);
    bytes.append(raw, sizeof x);
  }
  std::map<std::string, RawTensor> tensors_;
};

Result<ScaleLedger> ledger_of(const Tensors& tensors, const ScaleQuestion& question) { return make_scale_ledger(tensors.map(), spec_of_two_layers(), question); }

ScaleLedger must(const Result<ScaleLedger>& ledger) {
  QUIRE_CHECK(ledger.ok()) << ledger.error().message;
  return ledger.value();
}

std::string refusal(const Tensors& tensors, const ScaleQuestion& question = {.kv_dtype = DType::kFp8E4m3}) {
  const auto ledger = ledger_of(tensors, question);
  return ledger.ok() ? "accepted" : ledger.error().message;
}

std::string quoted(const std::string& name) { return '"' + name + '"'; }

KvScheme scheme(KvScheme::Granularity granularity) { return {granularity, "kv_cache_scheme = \"static\""}; }

const ScaleEntry& entry_of(const ScaleLedger& ledger, std::int32_t layer, ScaleKind kind) {
  const ScaleEntry& e = ledger.entries.at(static_cast<std::size_t>(layer) * 4 + static_cast<std::size_t>(kind));
  QUIRE_CHECK(e.layer == layer && e.kind == kind);
  return e;
}

const std::vector<float> kExpected = {0.25f, 0.25f, 0.5f, 0.5f, 1.5f, 1.5f, 3.0f, 3.0f};

struct PairForm {
  std::int32_t rule;
  const char *key, *value;
};
const PairForm kPairForms[] = {{1, "attn.k_scale", "attn.v_scale"},           {3, "k_proj.k_scale", "v_proj.v_scale"},   {4, "qkv_proj.k_scale", "qkv_proj.v_scale"},
                               {5, "qkqkv_proj.k_scale", "qkqkv_proj.v_scale"}, {6, "k_scale", "v_scale"},               {7, "k_proj.output_scale", "v_proj.output_scale"},
                               {11, "k_cache.scale", "v_cache.scale"}};

TEST(ScaleLedger, EveryPairFormInEveryDtypeAndScalarShape) {
  for (const PairForm& form : kPairForms)
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 1}, {1, 1, 1}}) {
        const ScaleLedger ledger = must(ledger_of(Tensors().add_layers(form.key, form.value, shape, dtype), {.kv_dtype = DType::kFp8E4m3}));
        EXPECT_EQ(ledger.source, ScaleSource::kCheckpoint);
        EXPECT_EQ(ledger.store_scales(), kExpected) << form.key;
        EXPECT_EQ(ledger.tensors.size(), 4u);
        EXPECT_THAT(ledger.warnings(), IsEmpty());
        const ScaleEntry& value = entry_of(ledger, 1, ScaleKind::kValue);
        EXPECT_EQ(value.tensor, kSelfAttn1 + form.value);
        EXPECT_EQ(value.rule, form.rule);
        EXPECT_EQ(value.status, ScaleStatus::kApplied);
        EXPECT_THAT(value.raw, ElementsAre(3.0f));
        EXPECT_FALSE(value.doubled_for_fnuz);
      }
}

// Layers need not agree on the form.
TEST(ScaleLedger, FormsMayDifferBetweenLayers) {
  const Tensors tensors = Tensors().add(kSelfAttn0 + "kv_scale", {0.25f}).add(kSelfAttn1 + "k_scale", {1.5f}).add(kSelfAttn1 + "v_proj.output_scale", {3.0f});
  EXPECT_THAT(must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3})).store_scales(), ElementsAre(0.25f, 0.25f, 0.25f, 0.25f, 1.5f, 1.5f, 3.0f, 3.0f));
}

TEST(ScaleLedger, ASingleScaleServesKeysAndValues) {
  const Tensors tensors = Tensors().add(kSelfAttn0 + "kv_scale", {0.25f}, {1}).add(kSelfAttn1 + "kv_scale", {0.75f}, {1});
  const ScaleLedger ledger = must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3}));
  EXPECT_THAT(ledger.store_scales(), ElementsAre(0.25f, 0.25f, 0.25f, 0.25f, 0.75f, 0.75f, 0.75f, 0.75f));
  EXPECT_TRUE(entry_of(ledger, 0, ScaleKind::kKey).from_single);
  EXPECT_EQ(entry_of(ledger, 1, ScaleKind::kValue).tensor, kSelfAttn1 + "kv_scale");
  EXPECT_THAT(must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3Fnuz})).store_scales(), ElementsAre(0.5f, 0.5f, 0.5f, 0.5f, 1.5f, 1.5f, 1.5f, 1.5f));
}

TEST(ScaleLedger, FnuzDoublesExactlyOnce) {
  for (const PairForm& form : kPairForms) {
    const ScaleLedger ledger = must(ledger_of(Tensors().add_layers(form.key, form.value), {.kv_dtype = DType::kFp8E4m3Fnuz}));
    EXPECT_THAT(ledger.store_scales(), ElementsAre(0.5f, 0.5f, 1.0f, 1.0f, 3.0f, 3.0f, 6.0f, 6.0f)) << form.key;
    EXPECT_TRUE(entry_of(ledger, 0, ScaleKind::kKey).doubled_for_fnuz);
    EXPECT_THAT(entry_of(ledger, 0, ScaleKind::kKey).raw, ElementsAre(0.25f));
    EXPECT_THAT(ledger.summary(), HasSubstr("factor 2 for FNUZ applied"));
  }
}

TEST(ScaleLedger, OneScaleForEachHead) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2}, {2, 1, 1}, {1, 2, 1}, {1, 2}}) {
    Tensors tensors;
    for (const std::string& layer : {kSelfAttn0, kSelfAttn1}) tensors.add(layer + "k_scale", {0.25f, 0.5f}, shape).add(layer + "v_scale", {1.0f, 2.0f}, shape);
    for (const auto& declared : {std::optional<KvScheme>(), std::optional(scheme(KvScheme::Granularity::kHead))}) {
      const ScaleLedger ledger = must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3, .scheme = declared}));
      EXPECT_THAT(ledger.store_scales(), ElementsAre(0.25f, 0.5f, 1.0f, 2.0f, 0.25f, 0.5f, 1.0f, 2.0f));
      EXPECT_THAT(ledger.summary(), HasSubstr("one for each KV head"));
    }
  }
}

TEST(ScaleLedger, WithoutScalesAnFp8CacheHasOnesAndSaysSo) {
  for (const DType dtype : {DType::kFp8E4m3, DType::kFp8E4m3Fnuz}) {
    const ScaleLedger ledger = must(ledger_of(Tensors(), {.kv_dtype = dtype}));
    EXPECT_EQ(ledger.source, ScaleSource::kDefault);
    EXPECT_EQ(ledger.store_scales(), std::vector<float>(8, 1.0f));  // never doubled
    EXPECT_EQ(entry_of(ledger, 1, ScaleKind::kValue).status, ScaleStatus::kDefault);
    EXPECT_THAT(ledger.warnings(), ElementsAre(HasSubstr("without scales")));
  }
  const ScaleLedger declared = must(ledger_of(Tensors(), {.kv_dtype = DType::kFp8E4m3, .scheme = scheme(KvScheme::Granularity::kTensor)}));
  EXPECT_THAT(declared.warnings(), ElementsAre(HasSubstr("kv_cache_scheme = \"static\" declares them")));
}

TEST(ScaleLedger, QueryAndProbabilityScalesArePresentNotApplied) {
  const std::pair<const char*, const char*> kForms[] = {{"attn.q_scale", "attn.prob_scale"}, {"q_scale", "prob_output_scale"}, {"q_proj.output_scale", "prob_output_scale"}, {"q.scale", "prob_output_scale"}};
  for (const auto& [query, prob] : kForms) {
    Tensors tensors = Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn0 + query, {0.125f}).add(kSelfAttn0 + prob, {2.0f});
    const ScaleLedger ledger = must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3}));
    EXPECT_EQ(ledger.source, ScaleSource::kCheckpoint);
    EXPECT_EQ(ledger.tensors.size(), 6u);
    const ScaleEntry &q = entry_of(ledger, 0, ScaleKind::kQuery), &p = entry_of(ledger, 0, ScaleKind::kProb);
    EXPECT_EQ(q.tensor, kSelfAttn0 + query);
    EXPECT_EQ(q.status, ScaleStatus::kNotApplied);
    EXPECT_EQ(q.reason, "queries are not quantised");
    EXPECT_THAT(q.raw, ElementsAre(0.125f));
    EXPECT_THAT(q.in_use, IsEmpty());
    EXPECT_EQ(p.status, ScaleStatus::kNotApplied);
    EXPECT_EQ(p.reason, "probabilities are not quantised");
    EXPECT_THAT(ledger.summary(), HasSubstr("2 scales of the checkpoint present, not applied"));
  }
  Tensors per_head = Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn0 + "q_scale", std::vector<float>(8, 1.0f), {8}).add(kSelfAttn1 + "q_scale", {1.0f, 1.0f}, {2});
  EXPECT_TRUE(ledger_of(per_head, {.kv_dtype = DType::kFp8E4m3}).ok());
}

TEST(ScaleLedger, A16BitCacheListsWhatItDoesNotApply) {
  const Tensors tensors = Tensors().add_layers("k_proj.output_scale", "v_proj.output_scale");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const ScaleLedger ledger = must(ledger_of(tensors, {.kv_dtype = dtype, .weights = CheckpointWeights::kFp8}));
    EXPECT_EQ(ledger.source, ScaleSource::kUnquantised);
    EXPECT_THAT(ledger.store_scales(), IsEmpty());
    EXPECT_EQ(ledger.tensors.size(), 4u);
    EXPECT_EQ(entry_of(ledger, 0, ScaleKind::kKey).status, ScaleStatus::kNotApplied);
    EXPECT_EQ(entry_of(ledger, 0, ScaleKind::kKey).reason, std::string("the cache is ") + dtype_name(dtype));
    EXPECT_THAT(ledger.summary(), HasSubstr("4 scales of the checkpoint present, not applied"));
    EXPECT_THAT(ledger.warnings(), IsEmpty());
  }
  // Half a set hurts nobody here.
  EXPECT_TRUE(ledger_of(Tensors().add(kSelfAttn0 + "k_scale", {0.5f}), {.kv_dtype = DType::kBF16}).ok());
  EXPECT_THAT(must(ledger_of(Tensors(), {.kv_dtype = DType::kBF16})).summary(), HasSubstr("no scales"));
}

TEST(ScaleLedger, E5m2HasScalesOfOne) {
  const ScaleLedger ledger = must(ledger_of(Tensors().add_layers("k_scale", "v_scale"), {.kv_dtype = DType::kFp8E5m2}));
  EXPECT_EQ(ledger.source, ScaleSource::kForced);
  EXPECT_EQ(ledger.store_scales(), std::vector<float>(8, 1.0f));
  EXPECT_EQ(entry_of(ledger, 0, ScaleKind::kKey).status, ScaleStatus::kNotApplied);
  EXPECT_EQ(entry_of(ledger, 0, ScaleKind::kKey).reason, "fp8_e5m2 has scales of 1");
  EXPECT_THAT(ledger.warnings(), IsEmpty());
  const ScaleLedger bare = must(ledger_of(Tensors(), {.kv_dtype = DType::kFp8E5m2}));
  EXPECT_EQ(entry_of(bare, 0, ScaleKind::kKey).status, ScaleStatus::kForced);
  EXPECT_EQ(bare.store_scales(), std::vector<float>(8, 1.0f));
}

TEST(ScaleLedger, E5m2OverFp8WeightsIsRefused) {
  EXPECT_THAT(refusal(Tensors(), {.kv_dtype = DType::kFp8E5m2, .weights = CheckpointWeights::kFp8}), AllOf(HasSubstr("--kv-cache-dtype fp8_e5m2"), HasSubstr("FP8 weights"), HasSubstr("allowed: auto, fp8")));
}

TEST(ScaleLedger, ZeroPointsOfZeroAreAccountedFor) {
  Tensors tensors = Tensors().add_layers("k_scale", "v_scale");
  tensors.add_raw(kSelfAttn0 + "k_zero_point", "I8", {1}, std::string(1, '\0')).add(kSelfAttn0 + "v_zero_point", {0.0f}).add(kSelfAttn1 + "k_zero_point", {-0.0f}, {}, DType::kBF16);
  tensors.add_raw(kSelfAttn1 + "v_zero_point", "F8_E4M3", {2}, std::string("\x00\x80", 2)).add_raw(kSelfAttn1 + "q_zero_point", "I32", {2}, std::string(8, '\0'));
  const ScaleLedger ledger = must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3}));
  EXPECT_EQ(ledger.tensors.size(), 9u);
  EXPECT_EQ(ledger.store_scales(), kExpected);
}

TEST(ScaleRefusals, AZeroPointThatIsNotZero) {
  const std::pair<const char*, std::string> kBad[] = {{"I8", std::string("\x80", 1)}, {"I8", std::string("\x01", 1)}, {"F32", std::string("\x00\x00\x80\x3f", 4)}, {"I32", std::string("\x00\x00\x00\x80", 4)}, {"F8_E4M3", std::string("\x38", 1)}};
  for (const auto& [dtype, bytes] : kBad)
    EXPECT_THAT(refusal(Tensors().add_layers("k_scale", "v_scale").add_raw(kSelfAttn1 + "k_zero_point", dtype, {1}, bytes)),
                AllOf(HasSubstr("model.layers.1.self_attn.k_zero_point"), HasSubstr("is not zero"), HasSubstr("model.safetensors")));
}

TEST(ScaleRefusals, ValuesThatAreNoScaleWhateverTheCache) {
  const std::pair<float, const char*> kBad[] = {{0.0f, "is 0"}, {-0.0f, "is -0"}, {-0.5f, "is -0.5"}, {-1.0f, "is -1"}, {kNaN, "is NaN"}, {kInfinity, "is infinity"}, {-kInfinity, "is -infinity"}};
  for (const auto& [value, words] : kBad)
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (const DType cache : {DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2, DType::kBF16})
        for (const char* suffix : {"k_scale", "v_proj.output_scale", "kv_scale", "q_scale", "prob_output_scale"})
          EXPECT_THAT(refusal(Tensors().add(kSelfAttn1 + suffix, {value}, {}, dtype), {.kv_dtype = cache}), AllOf(HasSubstr(kSelfAttn1 + suffix), HasSubstr(words), HasSubstr("finite and above 0")));
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn1 + "k_scale", {1.0f, kNaN}, {2})), AllOf(HasSubstr(kSelfAttn1 + "k_scale"), HasSubstr("element 1 is NaN")));
}

TEST(ScaleRefusals, Shapes) {
  const std::vector<std::int64_t> kBad[] = {{0}, {3}, {8}, {2, 2}, {1, 3}, {2, 0}};
  for (const auto& shape : kBad) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    EXPECT_THAT(refusal(Tensors().add(kSelfAttn1 + "k_scale", std::vector<float>(static_cast<std::size_t>(count), 1.0f), shape)),
                AllOf(HasSubstr(kSelfAttn1 + "k_scale"), HasSubstr("has shape " + shape_text(shape)), HasSubstr("2 KV heads")));
  }
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "prob_output_scale", {1.0f, 1.0f}, {2})), AllOf(HasSubstr("prob_output_scale"), HasSubstr("has shape [2]")));
}

TEST(ScaleRefusals, AShapeOtherThanDeclared) {
  const Tensors per_head = Tensors().add(kSelfAttn1 + "k_scale", {1.0f, 2.0f}, {2}), one = Tensors().add(kSelfAttn1 + "k_scale", {1.0f}, {1});
  EXPECT_THAT(refusal(per_head, {.kv_dtype = DType::kFp8E4m3, .scheme = scheme(KvScheme::Granularity::kTensor)}), AllOf(HasSubstr(quoted(kSelfAttn1 + "k_scale") + " has shape [2]"), HasSubstr("declares one scale for the layer")));
  EXPECT_THAT(refusal(one, {.kv_dtype = DType::kFp8E4m3, .scheme = scheme(KvScheme::Granularity::kHead)}), AllOf(HasSubstr(quoted(kSelfAttn1 + "k_scale") + " has shape [1]"), HasSubstr("one scale for each of the 2 KV heads")));
}

TEST(ScaleRefusals, Dtypes) {
  for (const char* dtype : {"F64", "I64", "I32", "F8_E4M3", "BOOL"})
    EXPECT_THAT(refusal(Tensors().add_raw(kSelfAttn1 + "k_scale", dtype, {}, std::string(8, '\1'))), AllOf(HasSubstr(quoted(kSelfAttn1 + "k_scale") + " is " + dtype), HasSubstr("F32, F16 or BF16")));
}

TEST(ScaleRefusals, WhatLeavesFloat32) {
  const float kTiny = 1e-40f, kHuge = 1e36f;
  for (const float x : {kTiny, kHuge})
    EXPECT_THAT(refusal(Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn1 + "v_scale", {x})), AllOf(HasSubstr(quoted(kSelfAttn1 + "v_scale") + " = 1e"), HasSubstr("where float32 holds")));
  const float kHalfTooMuch = 5e35f;  // doubled it is past the limit
  const Tensors edge = Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn1 + "v_scale", {kHalfTooMuch});
  EXPECT_EQ(refusal(edge), "accepted");
  EXPECT_THAT(refusal(edge, {.kv_dtype = DType::kFp8E4m3Fnuz}), AllOf(HasSubstr(kSelfAttn1 + "v_scale"), HasSubstr("twice that for FNUZ")));
}

TEST(ScaleRefusals, TwoTensorsForOneScaleThatDiffer) {
  const Tensors differ = Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn1 + "v_proj.output_scale", {3.5f});
  EXPECT_THAT(refusal(differ), AllOf(HasSubstr("layer 1"), HasSubstr(quoted(kSelfAttn1 + "v_scale") + " = 3 and"), HasSubstr(quoted(kSelfAttn1 + "v_proj.output_scale") + " = 3.5"), HasSubstr("are both the v scale")));
  EXPECT_THAT(refusal(Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn0 + "kv_scale", {0.25f})), AllOf(HasSubstr(quoted(kSelfAttn0 + "kv_scale") + " = 0.25"), HasSubstr(quoted(kSelfAttn0 + "v_scale") + " = 0.5")));
  const ScaleLedger same = must(ledger_of(Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn1 + "v_proj.output_scale", {3.0f, 3.0f}, {2}), {.kv_dtype = DType::kFp8E4m3}));
  EXPECT_EQ(same.store_scales(), kExpected);
  EXPECT_EQ(same.tensors.size(), 5u);
}

TEST(ScaleRefusals, AScaleLikeTensorThatNoRuleTakes) {
  for (const char* name : {"model.layers.1.self_attn.o_proj.output_scale", "model.layers.1.mlp.down_proj.act_scale", "logit_scale", "model.layers.1.self_attn.kv_zero_point"}) {
    Tensors tensors = Tensors().add_layers("k_scale", "v_scale").add(name, {1.0f});
    for (const DType cache : {DType::kFp8E4m3, DType::kBF16}) {
      EXPECT_THAT(refusal(tensors, {.kv_dtype = cache}), AllOf(HasSubstr(name), HasSubstr("no rule says of what"), HasSubstr("--relaxed kv-scales")));
      const ScaleLedger relaxed = must(ledger_of(tensors, {.kv_dtype = cache, .partial = PartialScales::kRelaxed}));
      EXPECT_THAT(relaxed.warnings(), ElementsAre(AllOf(HasSubstr(name), HasSubstr("serving without it"))));
      EXPECT_EQ(relaxed.tensors.size(), 5u);
    }
  }
}

TEST(ScaleRefusals, ScalesOfLayersThatTheModelDoesNotHave) {
  for (const char* name : {"model.layers.2.self_attn.k_scale", "model.layers.999999999.self_attn.kv_scale", "backbone.layers.1.mixer.k_proj.k_scale", "model.layers.7.self_attn.k_zero_point"})
    EXPECT_THAT(refusal(Tensors().add_layers("k_scale", "v_scale").add(name, {1.0f})), AllOf(HasSubstr(name), HasSubstr("2 layers does not have")));
}

TEST(ScaleRefusals, SomeLayersOnly) {
  const Tensors one_layer = Tensors().add(kSelfAttn1 + "k_scale", {1.5f}).add(kSelfAttn1 + "v_scale", {3.0f});
  EXPECT_THAT(refusal(one_layer), AllOf(HasSubstr("layer 0 has no KV scale"), HasSubstr("--relaxed kv-scales")));
  const ScaleLedger relaxed = must(ledger_of(one_layer, {.kv_dtype = DType::kFp8E4m3Fnuz, .partial = PartialScales::kRelaxed}));
  EXPECT_EQ(relaxed.source, ScaleSource::kPartly);
  EXPECT_THAT(relaxed.store_scales(), ElementsAre(1.0f, 1.0f, 1.0f, 1.0f, 3.0f, 3.0f, 6.0f, 6.0f));
  EXPECT_THAT(relaxed.warnings(), ElementsAre(AllOf(HasSubstr("layer 0"), HasSubstr("serving it with 1"))));
}

TEST(ScaleRefusals, KeysOnlyOrValuesOnly) {
  const Tensors no_value = Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn0 + "attn.k_scale", {0.25f});
  EXPECT_EQ(refusal(no_value), "accepted");
  const Tensors keys = Tensors().add(kSelfAttn0 + "k_scale", {0.25f}).add(kSelfAttn1 + "k_scale", {1.5f}).add(kSelfAttn1 + "v_scale", {3.0f});
  EXPECT_THAT(refusal(keys), AllOf(HasSubstr("layer 0 has \"" + kSelfAttn0 + "k_scale\" and no scale of values")));
  const ScaleLedger relaxed = must(ledger_of(keys, {.kv_dtype = DType::kFp8E4m3, .partial = PartialScales::kRelaxed}));
  EXPECT_THAT(relaxed.store_scales(), ElementsAre(0.25f, 0.25f, 0.25f, 0.25f, 1.5f, 1.5f, 3.0f, 3.0f));
  EXPECT_TRUE(entry_of(relaxed, 0, ScaleKind::kValue).from_single);
  EXPECT_FALSE(entry_of(relaxed, 0, ScaleKind::kKey).from_single);
  EXPECT_EQ(relaxed.source, ScaleSource::kPartly);
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "v_scale", {0.25f})), AllOf(HasSubstr("layer 0"), HasSubstr("no scale of keys"), HasSubstr("layer 1 has no KV scale")));
}

// --relaxed kv-scales softens what is missing or unknown, never what is wrong.
TEST(ScaleRefusals, RelaxedDoesNotSoftenWrongValues) {
  const ScaleQuestion relaxed{.kv_dtype = DType::kFp8E4m3, .partial = PartialScales::kRelaxed};
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "k_scale", {0.0f}), relaxed), HasSubstr("finite and above 0"));
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "k_scale", {1.0f, 1.0f, 1.0f}, {3}), relaxed), HasSubstr("has shape [3]"));
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "k_scale", {1.0f}).add(kSelfAttn0 + "kv_scale", {2.0f}), relaxed), HasSubstr("are both the k scale"));
}

// A scale that was refused is not missing as well.
TEST(ScaleRefusals, OneMistakeIsOneFinding) {
  EXPECT_EQ(refusal(Tensors().add_layers("k_scale", "v_scale").add(kSelfAttn1 + "v_scale", {-1.0f})),
            "KV scales: model.safetensors: \"model.layers.1.self_attn.v_scale\" is -1; a scale is finite and above 0");
}

TEST(ScaleRefusals, EverythingWrongIsNamedAtOnce) {
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "k_scale", {0.0f}).add(kSelfAttn1 + "v_scale", {-1.0f}).add("logit_scale", {1.0f})), AllOf(HasSubstr("0.self_attn.k_scale"), HasSubstr("1.self_attn.v_scale"), HasSubstr("logit_scale")));
  EXPECT_THAT(refusal(Tensors().add(kSelfAttn0 + "k_scale", {1.0f}).add("logit_scale", {1.0f})), AllOf(HasSubstr("layer 0 has"), HasSubstr("layer 1 has no KV scale"), HasSubstr("logit_scale")));
}

// What linear layers own, and parameters, are not the ledger's.
TEST(ScaleLedger, LeavesTheRestOfTheCheckpointAlone) {
  Tensors tensors = Tensors().add(kSelfAttn0 + "k_proj.weight_scale", {-1.0f}).add(kSelfAttn0 + "k_proj.input_scale", {0.0f}).add(kSelfAttn0 + "k_proj.weight", {1.0f});
  const ScaleLedger ledger = must(ledger_of(tensors, {.kv_dtype = DType::kBF16}));
  EXPECT_THAT(ledger.tensors, IsEmpty());
}

TEST(ScaleLedger, ScalesAreCalculatedWhereTheCheckpointHasNone) {
  const ScaleLedger before = must(ledger_of(Tensors(), {.kv_dtype = DType::kFp8E4m3Fnuz, .calculate = true}));
  EXPECT_TRUE(before.pending());
  EXPECT_EQ(before.source, ScaleSource::kCalculated);
  EXPECT_EQ(scale_ledger_text(before), "KV scales  fp8_e4m3 (FNUZ): scales of all 2 layers are calculated at start on the built-in text\n");
  const std::vector<float> calculated = {1, 1, 2, 2, 3, 4, 5, 5};
  const ScaleLedger after = calculated_ledger(before, calculated);
  EXPECT_FALSE(after.pending());
  EXPECT_EQ(after.source, ScaleSource::kCalculated);
  EXPECT_EQ(after.store_scales(), calculated);
  EXPECT_EQ(entry_of(after, 0, ScaleKind::kKey).status, ScaleStatus::kCalculated);
  EXPECT_THAT(entry_of(after, 0, ScaleKind::kKey).in_use, ElementsAre(1.0f));
  EXPECT_THAT(entry_of(after, 1, ScaleKind::kKey).in_use, ElementsAre(3.0f, 4.0f));
  EXPECT_FALSE(entry_of(after, 0, ScaleKind::kKey).doubled_for_fnuz);
  EXPECT_EQ(entry_of(after, 1, ScaleKind::kValue).reason, "calculated at start on the built-in text");
  EXPECT_EQ(entry_of(after, 0, ScaleKind::kQuery).status, ScaleStatus::kNone);
  EXPECT_EQ(after.summary(), "fp8_e4m3 (FNUZ): scales of all 2 layers calculated at start on the built-in text");
  EXPECT_THAT(after.warnings(), IsEmpty());
}

TEST(ScaleLedger, TheCheckpointsScalesWinOverACalculation) {
  const ScaleLedger ledger = must(ledger_of(Tensors().add_layers("k_scale", "v_scale"), {.kv_dtype = DType::kFp8E4m3, .calculate = true}));
  EXPECT_FALSE(ledger.pending());
  EXPECT_EQ(ledger.source, ScaleSource::kCheckpoint);
  EXPECT_THAT(ledger.warnings(), ElementsAre(HasSubstr("--calculate-kv-scales has no effect: the checkpoint has KV scales")));
  // Nothing to calculate for a format whose scales are 1, or that has none: told, whether the checkpoint has scales or not.
  for (const auto& [dtype, source, why] : {std::tuple(DType::kFp8E5m2, ScaleSource::kForced, "the KV cache is float8_e5m2, whose scales are 1"), std::tuple(DType::kBF16, ScaleSource::kUnquantised, "the KV cache is bfloat16, which has no scales")})
    for (const Tensors& tensors : {Tensors(), Tensors().add_layers("k_scale", "v_scale")}) {
      const ScaleLedger none = must(ledger_of(tensors, {.kv_dtype = dtype, .calculate = true}));
      EXPECT_EQ(none.source, source);
      EXPECT_THAT(none.warnings(), ElementsAre(std::string("--calculate-kv-scales has no effect: ") + why));
    }
}

// --- as it is printed ---

TEST(ScaleText, OneLineWhenThereIsNothingToList) {
  EXPECT_EQ(scale_ledger_text(must(ledger_of(Tensors(), {.kv_dtype = DType::kBF16}))), "KV scales  bfloat16: no scales\n");
  EXPECT_EQ(scale_ledger_text(must(ledger_of(Tensors(), {.kv_dtype = DType::kFp8E4m3}))), "KV scales  fp8_e4m3 (OCP): scales of 1: the checkpoint has none\n");
  EXPECT_EQ(scale_ledger_text(must(ledger_of(Tensors(), {.kv_dtype = DType::kFp8E5m2}))), "KV scales  fp8_e5m2: scales of 1, as the format has it\n");
}

TEST(ScaleText, TableOfConvertedScales) {
  Tensors tensors = Tensors().add(kSelfAttn0 + "kv_scale", {0.1f}).add(kSelfAttn1 + "k_proj.output_scale", {0.25f, 0.5f}, {2}).add(kSelfAttn1 + "v_proj.output_scale", {3.0f}).add(kSelfAttn1 + "q_proj.output_scale", {0.0625f});
  EXPECT_EQ(scale_ledger_text(must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3Fnuz}))),
            R"(KV scales  fp8_e4m3 (FNUZ): keys and values of 2 of 2 layers from the checkpoint (rules 2 and 7), one for each KV head, a single scale used for both, factor 2 for FNUZ applied; 1 scale of the checkpoint present, not applied
  layer  kind  in use              status                conversion         rule  tensor
  0      k     0.2                 applied               x 2 (FNUZ), k = v  2     model.layers.0.self_attn.kv_scale = 0.1
  0      v     0.2                 applied               x 2 (FNUZ), k = v  2     model.layers.0.self_attn.kv_scale = 0.1
  1      k     0.5 to 1 (2 heads)  applied               x 2 (FNUZ)         7     model.layers.1.self_attn.k_proj.output_scale = 0.25 to 0.5 (2 heads)
  1      v     6                   applied               x 2 (FNUZ)         7     model.layers.1.self_attn.v_proj.output_scale = 3
  1      q     -                   present, not applied  -                  8     model.layers.1.self_attn.q_proj.output_scale = 0.0625 (queries are not quantised)
)");
}

TEST(ScaleText, Json) {
  Tensors tensors = Tensors().add(kSelfAttn0 + "kv_scale", {0.1f}).add(kSelfAttn1 + "k_scale", {0.25f, 0.5f}, {2}).add(kSelfAttn1 + "v_scale", {3.0f});
  const auto json = scale_ledger_json(must(ledger_of(tensors, {.kv_dtype = DType::kFp8E4m3Fnuz})));
  EXPECT_EQ(json.at("source").as_string(), "checkpoint");
  EXPECT_EQ(json.at("kv_cache_dtype").as_string(), "fp8_e4m3 (FNUZ)");
  EXPECT_EQ(json.at("scales").as_array().size(), 8u);
  EXPECT_EQ(boost::json::serialize(json.at("scales").as_array().at(0)),
            R"({"layer":0,"kind":"k","status":"applied","tensor":"model.layers.0.self_attn.kv_scale","rule":2,"raw":1E-1,"conversions":["fnuz_factor_2","single_scale_for_both"],"in_use":2E-1,"reason":null})");
  EXPECT_EQ(boost::json::serialize(json.at("scales").as_array().at(4).at("in_use")), "[5E-1,1E0]");
  EXPECT_EQ(boost::json::serialize(json.at("scales").as_array().at(2)), R"({"layer":0,"kind":"q","status":"none","tensor":null,"rule":null,"raw":null,"conversions":[],"in_use":null,"reason":null})");
}

}  // namespace
}  // namespace quire::model::test
