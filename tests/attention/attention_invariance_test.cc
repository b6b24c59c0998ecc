// The same bits however a token's attention came to be computed: alone or in a batch, chunked or whole, one thread or many, eager or
// recorded with room to spare.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "attention/attention_rig.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "reference/kv_cache.h"

namespace quire {
namespace {

using test::ShapeCase;

const ShapeCase kCases[] = {
    {.dtype = DType::kF32, .num_heads = 8, .num_kv_heads = 2, .head_dim = 40, .block_size = 16, .lens = {{1, 513}, {70, 70}, {0, 3}, {130, 600}, {1, 1}, {2, 66}}},
    {.dtype = DType::kBF16, .num_heads = 7, .num_kv_heads = 1, .head_dim = 64, .block_size = 48, .lens = {{1, 1100}, {67, 131}, {5, 5}, {1, 64}}},
    {.dtype = DType::kF16, .num_heads = 3, .num_kv_heads = 3, .head_dim = 128, .block_size = 128, .lens = {{40, 550}, {1, 512}, {33, 33}}},
    {.dtype = DType::kBF16, .num_heads = 32, .num_kv_heads = 1, .head_dim = 8, .block_size = 32, .lens = {{9, 140}, {1, 63}, {17, 17}}},
};

class Invariance : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto rng = test::seeded_rng();
    c_ = kCases[GetParam()];
    b_ = test::make_kv_batch(c_.kv_case(), rng);
    baseline_ = test::AttentionStep(b_).run("CPU_UNIFIED");
  }
  ShapeCase c_;
  test::KvBatch b_;
  std::vector<float> baseline_;
};
INSTANTIATE_TEST_SUITE_P(Cases, Invariance, ::testing::Range(0, 4));

TEST_P(Invariance, BackendsAndThreads) {
  for (const char* backend : test::kBackends)
    for (const int threads : {1, 2, 5}) {
      const auto c = test::compare_bits(test::AttentionStep(b_, threads).run(backend), baseline_);
      EXPECT_TRUE(c.equal) << backend << ", " << threads << " threads: " << c.report;
    }
}

TEST_P(Invariance, ASequenceAloneAndEveryTokenAlone) {
  for (std::size_t s = 0; s < c_.lens.size(); ++s) {
    const std::int32_t rows = c_.lens[s].first;
    const auto want = test::rows_of(b_, baseline_, s);
    const auto width = static_cast<std::size_t>(b_.queries.cols);
    for (std::int32_t i = 0; i < rows; ++i) {  // a decode of each token
      const test::KvBatch one = test::part_of(b_, s, i, 1);
      const auto got = test::AttentionStep(one).run("CPU_SPLIT");
      const auto c = test::compare_bits(got, std::span(want).subspan(static_cast<std::size_t>(i) * width, width));
      ASSERT_TRUE(c.equal) << "sequence " << s << ", token " << i << ": " << c.report;
    }
  }
}

TEST_P(Invariance, ChunksOfAnySize) {
  for (std::size_t s = 0; s < c_.lens.size(); ++s)
    for (const std::int32_t chunk : {1, 3, 7, 16, 64}) {
      std::vector<float> joined;
      for (std::int32_t first = 0; first < c_.lens[s].first; first += chunk) {
        const test::KvBatch part = test::part_of(b_, s, first, std::min(chunk, c_.lens[s].first - first));
        const auto got = test::AttentionStep(part).run(chunk % 2 == 0 ? "CPU_UNIFIED" : "CPU_SPLIT");
        joined.insert(joined.end(), got.begin(), got.end());
      }
      const auto c = test::compare_bits(joined, test::rows_of(b_, baseline_, s));
      ASSERT_TRUE(c.equal) << "sequence " << s << " in chunks of " << chunk << ": " << c.report;
    }
}

// The block size is where tokens lie, never how they are summed.
TEST_P(Invariance, BlockSizesAndPlacement) {
  for (const std::int32_t block : {16, 32, 48, 64, 128}) {
    auto rng = test::seeded_rng();
    auto mine = c_.kv_case();
    mine.block_size = block;
    test::KvBatch other = test::make_kv_batch(mine, rng);
    // The same numbers under another layout: written anew from the plain matrices.
    test::poison(other.pool, other.shape.dtype);
    reference::kv_write(other.layout, other.pool, {mine.layer, b_.keys, b_.values, other.slots});
    other.queries = b_.queries;
    const auto c = test::compare_bits(test::AttentionStep(other).run("CPU_UNIFIED"), baseline_);
    EXPECT_TRUE(c.equal) << "block " << block << ": " << c.report;
  }
}

TEST_P(Invariance, ALaunchWithRoomToSpareDoesNothingMore) {
  test::AttentionStep step(b_, 2);
  for (const char* backend : test::kBackends)
    for (const std::int64_t extra : {1, 7, 500}) {
      const auto c = test::compare_bits(step.run(backend, extra), baseline_);
      EXPECT_TRUE(c.equal) << backend << " with " << extra << " units to spare: " << c.report;
    }
}

TEST_P(Invariance, RecordedThenReplayedWithOtherLengths) {
  for (const char* backend : test::kBackends) {
    test::AttentionStep step(b_, 2);
    const auto tables = step.tables;
    device::Graph graph;
    std::fill(step.tables.begin(), step.tables.end(), -1);  // none of it may be read while recording
    step.stream->begin_record(graph);
    step.launch(*step.stream, backend, 40);
    step.stream->end_record();
    step.tables = tables;  // same memory, new content
    expect_replays(step, graph, baseline_, backend);
  }
}

}  // namespace
}  // namespace quire
