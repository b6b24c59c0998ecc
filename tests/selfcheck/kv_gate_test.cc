// The KV gate on the real model: scales that fit pass in every FP8 format, scales that do not are refused with the layer and what went
// wrong, chunks change nothing, and nothing is left behind.
#include "selfcheck/kv_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kit/model_bench.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

std::vector<TokenId> text(std::size_t n) {
  std::mt19937_64 rng(11);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % 560);
  return tokens;
}

// Every scale `all`, but layer 3's keys and values as given.
selfcheck::KvGate gate_with(ModelBench& b, float all, float layer3_keys, float layer3_values, std::size_t n = 200) {
  std::vector<float> scales(kv::KvStore::num_scales(b.kv->layout()), all);
  const auto heads = static_cast<std::size_t>(b.spec.num_kv_heads);
  std::fill_n(scales.begin() + static_cast<std::ptrdiff_t>(6 * heads), heads, layer3_keys);
  std::fill_n(scales.begin() + static_cast<std::ptrdiff_t>(7 * heads), heads, layer3_values);
  b.kv->set_scales(scales);
  return selfcheck::run_kv_gate({b.config, *b.weights, *b.kv, *b.runner}, text(n));
}

TEST(KvGate, ScalesThatFitPassInEveryFormat) {
  double e4m3 = 0.0, e5m2 = 0.0;
  for (const DType kv : {DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2}) {
    ModelBench b(gsm_tiny(kv));
    const auto gate = gate_with(b, 0.06f, 0.06f, 0.06f);
    EXPECT_EQ(gate.failure(), "") << dtype_name(kv);
    ASSERT_EQ(gate.layers.size(), 6u);
    EXPECT_EQ(gate.num_tokens, 200);
    for (const auto& l : gate.layers) {
      // Storing rounds to a step that is between u and 2u of the number: never by more than half the larger, u. Errors that are spread
      // evenly over a step have a root mean square of it over the square root of 12; a quarter of that for the smaller step is far below
      // what thousands of numbers give.
      const double u = kv == DType::kFp8E5m2 ? 0x1p-3 : 0x1p-4;
      const double least = u / std::sqrt(12.0) / 4.0;
      for (const auto& part : {l.keys, l.values}) EXPECT_TRUE(part.error > least && part.error <= u) << part.error;
      EXPECT_GT(l.attention_error, 0.0);
      for (const auto& part : {l.keys, l.values}) EXPECT_TRUE(part.largest > 0.1 && part.largest < 0.06 * 448.0 * 4) << part.largest;
    }
    double& worst = kv == DType::kFp8E5m2 ? e5m2 : e4m3;
    worst = std::max(worst, gate.layers[2].attention_error);
  }
  EXPECT_GT(e5m2, e4m3) << "one bit less";
}

TEST(KvGate, A16BitCacheHasNone) {
  ModelBench b(gsm_tiny(DType::kBF16));
  const auto gate = selfcheck::run_kv_gate({b.config, *b.weights, *b.kv, *b.runner}, text(50));
  EXPECT_TRUE(gate.layers.empty());
  EXPECT_TRUE(gate.passed());
}

TEST(KvGate, ScalesThatDoNotFitAreRefusedByLayer) {
  struct Bad {
    float keys, values;
    const char* why;
  };
  for (const Bad& bad : {Bad{1e-4f, 0.06f, "layer 3: keys saturated"}, Bad{0.06f, 1e-4f, "layer 3: values saturated"}, Bad{0.06f, 3000.0f, "layer 3: attention error"},
                         Bad{30000.0f, 0.06f, "layer 3: attention error"}}) {
    ModelBench b(gsm_tiny(DType::kFp8E4m3));
    const auto fitting = gate_with(b, 0.06f, 0.06f, 0.06f);
    const auto gate = gate_with(b, 0.06f, bad.keys, bad.values);
    EXPECT_FALSE(gate.passed());
    EXPECT_THAT(gate.failure(), HasSubstr(bad.why));
    const auto part = [&](const selfcheck::KvGate& g) { return bad.keys != 0.06f ? g.layers[3].keys : g.layers[3].values; };
    EXPECT_EQ(std::max(bad.keys, bad.values) > 0.06f, part(gate).flushed > part(fitting).flushed) << "a larger scale flushes more: " << bad.why;
    EXPECT_EQ(std::max(bad.keys, bad.values) > 0.06f, part(gate).saturated <= part(fitting).saturated) << "a smaller one saturates more: " << bad.why;
    EXPECT_LT(gate.layers[0].attention_error, gate.limits.attention_error) << "the layers before are right";
  }
}

TEST(KvGate, ChunksChangeNothing) {
  ModelBench whole(gsm_tiny(DType::kFp8E4m3)), chunked(gsm_tiny(DType::kFp8E4m3, 7));
  const auto a = gate_with(whole, 0.06f, 0.05f, 0.04f, 61), b = gate_with(chunked, 0.06f, 0.05f, 0.04f, 61);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].attention_error, b.layers[i].attention_error) << i;
    EXPECT_EQ(a.layers[i].keys.error, b.layers[i].keys.error) << i;
  }
}

TEST(KvGate, ShortPoolsAndTextsAreUsedAsTheyAre) {
  ModelBenchOptions o = gsm_tiny(DType::kFp8E4m3);
  o.scheduler.num_blocks = 3;
  o.scheduler.max_model_len = 48;
  ModelBench b(o);
  EXPECT_EQ(gate_with(b, 0.06f, 0.06f, 0.06f).num_tokens, 47);
  EXPECT_EQ(gate_with(b, 0.06f, 0.06f, 0.06f, 1).num_tokens, 1);
  const auto* bytes = static_cast<const std::uint8_t*>(b.kv->data());
  EXPECT_TRUE(std::all_of(bytes, bytes + b.kv->layout().total_bytes(), [](std::uint8_t x) { return x == 0; })) << "the pool is as it was";
}

}  // namespace
}  // namespace quire::test
