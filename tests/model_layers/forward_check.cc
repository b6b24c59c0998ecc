#include "model_layers/forward_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"

namespace quire::test {

std::vector<std::vector<TokenId>> random_sequences(const model::ModelSpec& spec, std::initializer_list<std::size_t> lengths, std::mt19937_64& rng) {
  std::vector<std::vector<TokenId>> out;
  for (const std::size_t n : lengths) {
    out.emplace_back(n);
    for (TokenId& t : out.back()) t = static_cast<TokenId>(rng() % static_cast<std::uint64_t>(spec.vocab_size));
  }
  return out;
}

namespace {

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
  const double kv = c.kv_dtype == DType::kF32 ? 0.0 : unit_roundoff(c.kv_dtype);  // a rounding that falls to the other side, now and then
  return (gamma(c.spec.num_layers * layer + c.spec.hidden_size, DType::kF32) + kv) * largest;
}

}  // namespace

void check_forward(const LayersCase& c, const std::string& what) {
  SCOPED_TRACE(what);
  auto rng = seeded_rng();
  LayersRig rig(c, random_sequences(c.spec, {3, 25, 40, 61}, rng));
  const auto reference = reference_of(c);
  std::vector<reference::Matrix> want;
  for (const auto& s : rig.sequences) want.push_back(reference.logits(s));
  const auto vocab = static_cast<std::size_t>(c.spec.vocab_size);
  double used = 0.0;
  for (const auto& step : kSteps) {
    const auto got = widen(std::span<const float>(rig.eager(step)));
    std::size_t t = 0;
    for (const StepRow& row : step)
      for (std::int32_t i = 0; i < row.num_new; ++i, ++t) {
        const auto exact = want[row.sequence].row(row.num_computed + i);
        double largest = 0.0;
        for (const double v : exact) largest = std::max(largest, std::fabs(v));
        const auto cmp = compare(std::span(got).subspan(t * vocab, vocab), exact, bound_of(c, largest));
        ASSERT_TRUE(cmp.equal) << "sequence " << row.sequence << ", position " << row.num_computed + i << ": " << cmp.report;
        used = std::max(used, cmp.used);
      }
  }
  std::printf("%s: at most %.3f of the bound\n", what.c_str(), used);
}

void check_replays(LayersCase c, const std::string& what) {
  SCOPED_TRACE(what);
  auto rng = seeded_rng();
  const auto sequences = random_sequences(c.spec, {3, 25, 40, 61}, rng);
  LayersRig eager(c, sequences);
  c.threads = 3;
  LayersRig recorded(c, sequences);
  device::Graph graph;
  recorded.record(graph);
  const auto launches = recorded.stream->num_launches();
  EXPECT_EQ(graph.launches.size(), launches);
  for (const auto& step : kSteps) {
    const auto cmp = compare_bits(recorded.replay(graph, step), eager.eager(step));
    EXPECT_TRUE(cmp.equal) << cmp.report;
  }
  const auto bytes = static_cast<std::size_t>(eager.kv->layout().total_bytes());
  const auto cache = compare_bits(std::span(static_cast<const std::byte*>(recorded.kv->data()), bytes), std::span(static_cast<const std::byte*>(eager.kv->data()), bytes));
  EXPECT_TRUE(cache.equal) << "the caches differ: " << cache.report;
  EXPECT_EQ(recorded.stream->num_launches(), launches) << "a replay launches nothing new";
}

}  // namespace quire::test
