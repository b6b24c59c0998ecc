// What calibration sees, against the same numbers looked up elsewhere: keys and values in the cells of a float32 cache, queries and
// attention's output between launches, the products of the feed-forward part; and all of them against a float64 model that shares nothing
// with this one (tools/make_fp8_checkpoints.py).
#include "calibration/observe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fp8_scale.h"
#include "calibration/scales.h"
#include "kit/family_specs.h"
#include "kit/model_bench.h"
#include "kit/seed.h"
#include "model/forward.h"
#include "quantize/folder.h"
#include "runner/text_step.h"

namespace quire::calibration {
namespace {

using test::gsm_tiny;
using test::ModelBench;
using test::ModelBenchOptions;
using testing::HasSubstr;

Subject subject_of(ModelBench& b) { return {b.config, *b.weights, *b.kv, *b.runner}; }

std::vector<TokenId> text(std::size_t n) {
  auto rng = test::seeded_rng();
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % 560);
  return tokens;
}

float amax(const float* values, std::int64_t count) {
  float most = 0.0f;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(values[i]));
  return most;
}

// Of one head's cached keys or values, tokens [0, n).
float cached_amax(const kv::KvStore& kv, std::int32_t layer, kv::Part part, std::int32_t head, std::int64_t n) {
  float most = 0.0f;
  const kv::KvLayout& l = kv.layout();
  for (std::int64_t t = 0; t < n; ++t)
    for (std::int32_t d = 0; d < l.head_dim; ++d)
      most = std::max(most, std::fabs(static_cast<const float*>(kv.data())[l.element(layer, t / l.block_size, part, head, static_cast<std::int32_t>(t % l.block_size), d)]));
  return most;
}

// A float32 cache and 200 tokens, against what a step over them leaves in the cells and in the activations.
void expect_ranges_of_cells(ModelBench& b, const std::vector<TokenId>& tokens) {
  const auto n = std::ssize(tokens);
  const auto ranges = observe(subject_of(b), tokens);
  ASSERT_TRUE(ranges.ok()) << ranges.error().message;
  EXPECT_EQ(ranges->num_tokens, n);
  EXPECT_EQ(ranges->num_windows, 1);
  const auto layers = static_cast<std::size_t>(b.spec.num_layers);
  ASSERT_EQ(ranges->layers.size(), layers);
  std::vector<float> attended(layers), queries(2 * layers);
  const std::int64_t d = b.spec.head_dim, group = b.spec.num_heads / b.spec.num_kv_heads;
  const auto look = [&](std::int32_t layer) {
    const auto& a = *b.runner->trace().activations;
    attended[static_cast<std::size_t>(layer)] = amax(a.attended.as<float>(), n * a.attended.dim(1));
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t head = 0; head < b.spec.num_heads; ++head) {
        float& most = queries[static_cast<std::size_t>(layer * 2 + head / group)];
        most = std::max(most, amax(a.q.as<float>() + row * a.q.dim(1) + head * d, d));
      }
  };
  b.runner->submit(runner::text_step(tokens, 0, n, 16, 1), {.path = runner::StepPath::kEager, .after_attention = look});
  ASSERT_TRUE(b.runner->collect().ok());
  for (std::int32_t layer = 0; layer < b.spec.num_layers; ++layer) {
    const LayerRange& r = ranges->layers[static_cast<std::size_t>(layer)];
    EXPECT_EQ(r.o_input, attended[static_cast<std::size_t>(layer)]);
    for (std::int32_t head = 0; head < 2; ++head) {
      const auto h = static_cast<std::size_t>(head);
      // The kernel may fuse the rotation's multiplications and additions: half a unit in the last place of each, twice.
      EXPECT_NEAR(r.keys[h], cached_amax(*b.kv, layer, kv::Part::kKey, head, n), 4 * 0x1p-24f * r.keys[h]) << layer;
      EXPECT_NEAR(r.queries[h], queries[static_cast<std::size_t>(layer * 2 + head)], 4 * 0x1p-24f * r.queries[h]) << layer;
      EXPECT_EQ(r.values[h], cached_amax(*b.kv, layer, kv::Part::kValue, head, n));
    }
  }
  EXPECT_EQ(ranges->layers.back().down_input, amax(b.runner->trace().activations->activated.as<float>(), n * std::int64_t{b.spec.intermediate_size}));
}

TEST(Observe, RangesAreThoseOfCellsAndActivations) {
  ModelBench b(gsm_tiny(DType::kF32));
  expect_ranges_of_cells(b, text(200));
}

// Norms of q and k, and the rope of each kind of layer, are in what is measured.
TEST(Observe, EveryFamily) {
  for (const test::FamilyCase& family : test::family_cases()) {
    SCOPED_TRACE(family.architecture);
    ModelBenchOptions o{.dummy = test::family_spec(family), .kv_dtype = DType::kF32};
    o.scheduler = SchedulerConfig{.max_num_batched_tokens = 256, .max_num_seqs = 2, .max_model_len = 256, .num_blocks = 32};
    ModelBench b(o);
    std::vector<TokenId> tokens;
    for (const TokenId t : text(200)) tokens.push_back(t % b.spec.vocab_size);
    expect_ranges_of_cells(b, tokens);
  }
}

// The script keeps keys and values in bfloat16, as the cache here does. What differs is float32 against float64, and with it, once in a while,
// which way a key is rounded: 2^-9 of that key.
TEST(Observe, RangesAreThoseOfTheFloat64Model) {
  ModelBenchOptions o;
  o.model_dir = quantize::test::kGoldens + "/source";
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 64, .max_num_seqs = 2, .max_model_len = 128, .num_blocks = 16};
  ModelBench b(o);
  std::vector<TokenId> tokens;
  for (const auto& id : quantize::test::expected().at("calibration_ids").as_array()) tokens.push_back(static_cast<TokenId>(id.as_int64()));
  const auto got = observe(subject_of(b), tokens).value();
  const Ranges want = quantize::test::expected_ranges();
  ASSERT_EQ(got.layers.size(), want.layers.size());
  const auto near = [](float a, float wanted, const char* what) { EXPECT_NEAR(a, wanted, 0x1p-9f * wanted) << what; };
  for (std::size_t i = 0; i < want.layers.size(); ++i) {
    const LayerRange &g = got.layers[i], &w = want.layers[i];
    near(g.qkv_input, w.qkv_input, "qkv");
    near(g.o_input, w.o_input, "o");
    near(g.gate_up_input, w.gate_up_input, "gate, up");
    near(g.down_input, w.down_input, "down");
    for (std::size_t h = 0; h < 2; ++h) {
      near(g.queries[h], w.queries[h], "query");
      near(g.keys[h], w.keys[h], "key");
      near(g.values[h], w.values[h], "value");
    }
  }
}

TEST(Observe, WindowsAddUp) {
  ModelBench whole(gsm_tiny(DType::kBF16)), small(gsm_tiny(DType::kBF16, 96));
  const auto tokens = text(96 * 2 + 7);
  std::int64_t told = 0;
  const ObserveHooks hooks{.progress = [&](std::int64_t done, std::int64_t total) { EXPECT_EQ(total, 3); EXPECT_EQ(done, ++told); }};
  const auto got = observe(subject_of(small), tokens, hooks).value();
  EXPECT_EQ(told, 3);
  EXPECT_EQ(got.num_windows, 3);
  std::vector<LayerRange> want(6);
  for (std::size_t begin = 0; begin < tokens.size(); begin += 96) {
    const auto part = observe(subject_of(whole), std::span(tokens).subspan(begin, std::min<std::size_t>(96, tokens.size() - begin))).value();
    for (std::size_t i = 0; i < 6; ++i) {
      want[i].qkv_input = std::max(want[i].qkv_input, part.layers[i].qkv_input);
      want[i].gate_up_input = std::max(want[i].gate_up_input, part.layers[i].gate_up_input);
      want[i].keys.resize(2);
      for (std::size_t h = 0; h < 2; ++h) want[i].keys[h] = std::max(want[i].keys[h], part.layers[i].keys[h]);
    }
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(got.layers[i].qkv_input, want[i].qkv_input);
    EXPECT_EQ(got.layers[i].gate_up_input, want[i].gate_up_input);
    EXPECT_EQ(got.layers[i].keys, want[i].keys);
  }
  EXPECT_EQ(amax(reinterpret_cast<const float*>(small.kv->data()), small.kv->layout().total_bytes() / 4), 0.0f) << "cells are left behind";
}

TEST(Observe, OneTokenIsEnoughAndNoneIsNot) {
  ModelBench b(gsm_tiny(DType::kBF16));
  EXPECT_GT(observe(subject_of(b), text(1))->layers[0].keys[0], 0.0f);
  const auto none = observe(subject_of(b), {});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("no tokens"));
}

TEST(Scales, TheLargestNumberDividedAndOnesForZeros) {
  EXPECT_EQ(fp8::scale_of(448.0f, fp8::kLargestE4m3), 1.0f);
  EXPECT_EQ(fp8::scale_of(100.0f, 200.0f), 0.5f);
  EXPECT_EQ(fp8::scale_of(0.0f, 200.0f), 1.0f);
  EXPECT_EQ(fp8::scale_of(0x1p-140f, 200.0f), 0x1p-126f) << "what is stored stays finite";
}

TEST(CalculatedScales, OneForEachLayerFromItsLargestNumbers) {
  for (const DType kv : {DType::kFp8E4m3, DType::kFp8E4m3Fnuz}) {
    ModelBench b(gsm_tiny(kv)), plain(gsm_tiny(DType::kF32));
    const auto tokens = text(300);
    const auto made = calculate_kv_scales(subject_of(b), tokens, {}).value();
    EXPECT_TRUE(made.zeros.empty());
    ASSERT_EQ(made.scales.size(), 24u);
    EXPECT_EQ(std::vector<float>(b.kv->scales(), b.kv->scales() + 24), made.scales);
    const auto ranges = observe(subject_of(plain), tokens).value();
    for (std::size_t layer = 0; layer < 6; ++layer) {
      const LayerRange& r = ranges.layers[layer];
      const float* keys = made.scales.data() + layer * 4;
      EXPECT_EQ(keys[0], keys[1]);
      EXPECT_EQ(keys[2], keys[3]);
      // Layer 0 has seen no FP8 yet; later ones have, which moves their numbers a little.
      const float drift = layer == 0 ? 0.0f : 0.1f;
      EXPECT_NEAR(keys[0], std::max(r.keys[0], r.keys[1]) / 200.0f, drift * keys[0]);
      EXPECT_NEAR(keys[2], std::max(r.values[0], r.values[1]) / 100.0f, drift * keys[2]);
    }
    const auto again = calculate_kv_scales(subject_of(b), tokens, {}).value();
    EXPECT_EQ(again.scales, made.scales);
    const auto other = calculate_kv_scales(subject_of(b), tokens, {.keys = 400.0f, .values = 25.0f}).value();
    EXPECT_EQ(other.scales[0], made.scales[0] / 2);
    EXPECT_EQ(other.scales[2], made.scales[2] * 4);
  }
}

// Scales that no earlier run left behind decide anything: whatever the store had before.
TEST(CalculatedScales, DoNotDependOnWhatTheStoreHad) {
  ModelBench a(gsm_tiny(DType::kFp8E4m3)), b(gsm_tiny(DType::kFp8E4m3));
  b.kv->set_scales(std::vector<float>(24, 0.001f));
  EXPECT_EQ(calculate_kv_scales(subject_of(a), text(40), {})->scales, calculate_kv_scales(subject_of(b), text(40), {})->scales);
}

TEST(CalculatedScales, ZerosGetOneAndAreNamed) {
  ModelBenchOptions o = gsm_tiny(DType::kFp8E4m3);
  ModelBench b(o);
  // Without its weights the model makes nothing but zeros: keys and values of every layer.
  const auto& qkv = b.weights->layers()[2].qkv;
  std::memset(const_cast<void*>(qkv.packed), 0, ops::Weight::packed_bytes(qkv.format, qkv.n, qkv.k));
  const auto made = calculate_kv_scales(subject_of(b), text(40), {}).value();
  EXPECT_THAT(made.zeros, testing::ElementsAre("layer 2: every key is zero, scale 1", "layer 2: every value is zero, scale 1"));
  EXPECT_EQ(std::vector<float>(made.scales.begin() + 8, made.scales.begin() + 12), std::vector<float>(4, 1.0f));
}

TEST(Observe, WhatIsNotANumberIsNamed) {
  ModelBench b(gsm_tiny(DType::kBF16));
  const float* norm = b.weights->layers()[3].feed_forward_norm;
  const_cast<float*>(norm)[5] = std::numeric_limits<float>::infinity();
  const auto bad = observe(subject_of(b), text(40));
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("the input of gate and up of layer 3"));
}

// No scale holds infinity: named, and nothing set.
TEST(CalculatedScales, AnInfiniteValueIsNamed) {
  ModelBench b(gsm_tiny(DType::kFp8E4m3));
  const float* norm = b.weights->layers()[3].input_norm;
  const_cast<float*>(norm)[5] = std::numeric_limits<float>::infinity();
  const auto bad = calculate_kv_scales(subject_of(b), text(40), {});
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("of layer 3"));
}

}  // namespace
}  // namespace quire::calibration
