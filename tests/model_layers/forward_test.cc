// The forward pass against the float64 Llama, for every variant of a spec; and graph conformance: recorded once, replayed for any step,
// the same bits as eager.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "model_layers/layers_rig.h"

namespace quire {
namespace {

using test::LayersCase;
using test::LayersRig;
using test::StepRow;

std::vector<std::vector<TokenId>> random_sequences(const model::ModelSpec& spec, std::initializer_list<std::size_t> lengths, std::mt19937_64& rng) {
  std::vector<std::vector<TokenId>> out;
  for (const std::size_t n : lengths) {
    out.emplace_back(n);
    for (TokenId& t : out.back()) t = static_cast<TokenId>(rng() % static_cast<std::uint64_t>(spec.vocab_size));
  }
  return out;
}

// Prompts whole, in chunks and after each other's decodes, all mixed; in the end every token of every sequence was computed once.
const std::vector<std::vector<StepRow>> kSteps = {
    {{0, 0, 1}, {1, 0, 17}, {2, 0, 33}},
    {{0, 1, 1}, {2, 33, 1}, {1, 17, 6}, {3, 0, 20}},
    {{1, 23, 1}, {3, 20, 40}},
    {{3, 60, 1}, {0, 2, 1}, {1, 24, 1}, {2, 34, 1}},
    {{2, 35, 5}},
};

// First order: one gamma for the longest chain of operations between a token and its logits, relative to the largest logit. Each norm
// rescales to size 1, so errors of a layer reach the next one at about their own size. About 1e-4: a wrong layer is off by 1e-2 or more.
double bound_of(const LayersCase& c, double largest) {
  const std::int64_t layer = 3 * c.spec.hidden_size + c.spec.num_heads * c.spec.head_dim + c.spec.intermediate_size + c.spec.head_dim + 64 + 40;
  const double kv = c.kv_dtype == DType::kF32 ? 0.0 : test::unit_roundoff(c.kv_dtype);  // a rounding that falls to the other side, now and then
  return (test::gamma(c.spec.num_layers * layer + c.spec.hidden_size, DType::kF32) + kv) * largest;
}

void check(const LayersCase& c, const std::string& what) {
  SCOPED_TRACE(what);
  auto rng = test::seeded_rng();
  LayersRig rig(c, random_sequences(c.spec, {3, 25, 40, 61}, rng));
  const auto reference = test::reference_of(c);
  std::vector<reference::Matrix> want;
  for (const auto& s : rig.sequences) want.push_back(reference.logits(s));
  const auto vocab = static_cast<std::size_t>(c.spec.vocab_size);
  double used = 0.0;
  for (const auto& step : kSteps) {
    const auto got = test::widen(std::span<const float>(rig.eager(step)));
    std::size_t t = 0;
    for (const StepRow& row : step)
      for (std::int32_t i = 0; i < row.num_new; ++i, ++t) {
        const auto exact = want[row.sequence].row(row.num_computed + i);
        double largest = 0.0;
        for (const double v : exact) largest = std::max(largest, std::fabs(v));
        const auto cmp = test::compare(std::span(got).subspan(t * vocab, vocab), exact, bound_of(c, largest));
        ASSERT_TRUE(cmp.equal) << "sequence " << row.sequence << ", position " << row.num_computed + i << ": " << cmp.report;
        used = std::max(used, cmp.used);
      }
  }
  std::printf("%s: at most %.3f of the bound\n", what.c_str(), used);
}

TEST(Forward, GroupsAndHeadSizes) {
  for (const std::int32_t kv_heads : {8, 2, 1})
    for (const std::int32_t d : {8, 64, 80}) check({.spec = test::small_spec(kv_heads, d)}, "8/" + std::to_string(kv_heads) + " heads of " + std::to_string(d));
}

TEST(Forward, BiasesAndTying) {
  for (int bits = 0; bits < 8; ++bits) {
    LayersCase c{.spec = test::small_spec(2, 16)};
    c.spec.attention_bias = (bits & 1) != 0;
    c.spec.mlp_bias = (bits & 2) != 0;
    c.spec.tie_word_embeddings = (bits & 4) != 0;
    check(c, std::string("biases ") + (c.spec.attention_bias ? "attention " : "") + (c.spec.mlp_bias ? "mlp " : "") + (c.spec.tie_word_embeddings ? "tied" : "untied"));
  }
}

TEST(Forward, EveryRopeKind) {
  using model::RopeKind;
  for (const RopeKind kind : {RopeKind::kDefault, RopeKind::kLinear, RopeKind::kDynamic, RopeKind::kLlama3, RopeKind::kYarn}) {
    LayersCase c{.spec = test::small_spec(4, 32)};
    c.spec.rope.kind = kind;
    c.spec.rope.theta = 500.0;
    c.spec.rope.factor = 4.0;
    c.spec.rope.original_max_position_embeddings = kind == RopeKind::kLlama3 || kind == RopeKind::kYarn ? 32 : 0;
    check(c, "rope kind " + std::to_string(static_cast<int>(kind)));
  }
}

TEST(Forward, StorageTypesBackendsBlocks) {
  for (const DType dtype : {DType::kF16, DType::kBF16})
    for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"}) {
      LayersCase c{.spec = test::small_spec(2, 16), .dtype = dtype, .kv_dtype = dtype, .backend = backend, .threads = 2, .block_size = 32};
      check(c, std::string(dtype_name(dtype)) + " weights and cache, " + backend);
      c.kv_dtype = DType::kF32;
      check(c, std::string(dtype_name(dtype)) + " weights, float32 cache, " + backend);
    }
}

// Recorded once for the largest step; replayed with other lengths, tables and token counts, padding everywhere else.
TEST(GraphConformance, ReplayEqualsEagerBitForBit) {
  for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"})
    for (const DType kv : {DType::kF32, DType::kBF16, DType::kFp8E4m3, DType::kFp8E5m2}) {
      SCOPED_TRACE(std::string(backend) + ", KV " + dtype_name(kv));
      auto rng = test::seeded_rng();
      LayersCase c{.spec = test::small_spec(2, 80), .dtype = DType::kBF16, .kv_dtype = kv, .backend = backend};
      c.spec.attention_bias = c.spec.tie_word_embeddings = true;
      const auto sequences = random_sequences(c.spec, {3, 25, 40, 61}, rng);
      LayersRig eager(c, sequences);
      c.threads = 3;
      LayersRig recorded(c, sequences);
      device::Graph graph;
      recorded.record(graph);
      const auto launches = recorded.stream->num_launches();
      EXPECT_EQ(graph.launches.size(), launches);
      for (const auto& step : kSteps) {
        const auto cmp = test::compare_bits(recorded.replay(graph, step), eager.eager(step));
        EXPECT_TRUE(cmp.equal) << cmp.report;
      }
      const auto bytes = static_cast<std::size_t>(eager.kv->layout().total_bytes());
      const auto cache = test::compare_bits(std::span(static_cast<const std::byte*>(recorded.kv->data()), bytes), std::span(static_cast<const std::byte*>(eager.kv->data()), bytes));
      EXPECT_TRUE(cache.equal) << "the caches differ: " << cache.report;
      EXPECT_EQ(recorded.stream->num_launches(), launches) << "a replay launches nothing new";
    }
}

TEST(GraphConformance, AnEmptyStepTouchesNoCache) {
  auto rng = test::seeded_rng();
  const LayersCase c{.spec = test::small_spec(2, 16)};
  LayersRig rig(c, random_sequences(c.spec, {30}, rng));
  device::Graph graph;
  rig.record(graph);
  (void)rig.replay(graph, {{0, 0, 29}});
  const auto* data = static_cast<const std::byte*>(rig.kv->data());
  const std::vector<std::byte> before(data, data + rig.kv->layout().total_bytes());
  (void)rig.replay(graph, {});
  EXPECT_TRUE(std::equal(before.begin(), before.end(), data));
}

}  // namespace
}  // namespace quire
