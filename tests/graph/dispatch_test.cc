// Which graph a batch runs: order, padding, reasons.
#include "graph/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unordered_set>

#include "kit/seed.h"

namespace quire::graph {
namespace {

using ::testing::HasSubstr;

BucketSet buckets(std::int32_t max_num_seqs = 6, std::int32_t query_len = 1) {
  return choose_buckets({.mode = kDefaultGraphMode, .decode_query_len = query_len, .max_num_seqs = max_num_seqs, .max_num_batched_tokens = 2048})
      .value()
      .set;
}
constexpr BatchDescriptor kDecode{5, 5, true}, kMixed{7, 3, false}, kLarge{13, 1, false};

GraphKey key(RuntimeMode mode, std::int32_t tokens, std::int32_t rows, bool uniform = false) { return {mode, tokens, rows, uniform}; }

TEST(Describe, UniformIsAMatterOfShape) {
  EXPECT_TRUE(describe_batch(5, 5, 1, 1).uniform);
  EXPECT_TRUE(describe_batch(1, 1, 1, 1).uniform);  // a prompt's single token
  EXPECT_FALSE(describe_batch(6, 5, 2, 1).uniform);
  EXPECT_FALSE(describe_batch(6, 3, 2, 1).uniform);  // one length, but not a decode row's
  EXPECT_TRUE(describe_batch(6, 2, 3, 3).uniform);
  EXPECT_FALSE(describe_batch(5, 2, 3, 3).uniform);
  EXPECT_FALSE(describe_batch(2, 2, 1, 3).uniform);
}

TEST(Choose, EachModeWithEachBatch) {
  const BucketSet set = buckets();  // 1 2 4 8, decode 1 2 4 6
  const auto of = [&](const BatchDescriptor& batch, GraphMode mode) { return choose_graph(batch, mode, set); };
  EXPECT_EQ(of(kDecode, GraphMode::kNone).eager, EagerReason::kModeNone);
  EXPECT_EQ(of(kDecode, GraphMode::kPiecewise).key, key(RuntimeMode::kPiecewise, 8, 0));
  EXPECT_EQ(of(kDecode, GraphMode::kFull).key, key(RuntimeMode::kFull, 8, 6));
  EXPECT_EQ(of(kDecode, GraphMode::kFullDecodeOnly).key, key(RuntimeMode::kFull, 6, 6, true));
  EXPECT_EQ(of(kDecode, GraphMode::kFullAndPiecewise).key, key(RuntimeMode::kFull, 6, 6, true));
  EXPECT_EQ(of(kMixed, GraphMode::kPiecewise).key, key(RuntimeMode::kPiecewise, 8, 0));
  EXPECT_EQ(of(kMixed, GraphMode::kFull).key, key(RuntimeMode::kFull, 8, 6));
  EXPECT_EQ(of(kMixed, GraphMode::kFullDecodeOnly).eager, EagerReason::kMixedBatch);
  EXPECT_EQ(of(kMixed, GraphMode::kFullAndPiecewise).key, key(RuntimeMode::kPiecewise, 8, 0));
  for (const GraphMode mode : {GraphMode::kPiecewise, GraphMode::kFull, GraphMode::kFullAndPiecewise}) {
    EXPECT_EQ(of(kLarge, mode).eager, EagerReason::kTooLarge);
    EXPECT_EQ(of(kLarge, mode).key, key(RuntimeMode::kNone, 13, 1)) << "an eager batch runs as it is";
  }
}

TEST(Choose, DecodeRowsOfSeveralTokens) {
  const BucketSet set = buckets(8, 3);
  EXPECT_EQ(choose_graph(describe_batch(15, 5, 3, 3), kDefaultGraphMode, set).key, key(RuntimeMode::kFull, 18, 6, true));
  EXPECT_EQ(choose_graph(describe_batch(5, 5, 1, 3), kDefaultGraphMode, set).key, key(RuntimeMode::kPiecewise, 6, 0));
}

TEST(Choose, DecodeBatchesAboveTheirGraphsRunInPieces) {
  const BucketSet set({4, 16}, {4}, 1, 8);
  EXPECT_EQ(choose_graph({6, 6, true}, GraphMode::kFullAndPiecewise, set).key, key(RuntimeMode::kPiecewise, 16, 0));
  const GraphChoice eager = choose_graph({6, 6, true}, GraphMode::kFullDecodeOnly, set);
  EXPECT_EQ(eager.eager, EagerReason::kTooLarge);
  EXPECT_THAT(eager_text(eager, {6, 6, true}, GraphMode::kFullDecodeOnly, set), HasSubstr("6 tokens are more than the largest graph's 4"));
}

TEST(Choose, ForbiddenFullGraphsLeavePieces) {
  const BucketSet set = buckets();
  EXPECT_EQ(choose_graph(kDecode, GraphMode::kFullAndPiecewise, set, FullGraphs::kForbidden).key, key(RuntimeMode::kPiecewise, 8, 0));
  EXPECT_EQ(choose_graph(kDecode, GraphMode::kPiecewise, set, FullGraphs::kForbidden).key, key(RuntimeMode::kPiecewise, 8, 0));
  for (const GraphMode mode : {GraphMode::kFull, GraphMode::kFullDecodeOnly}) {
    const GraphChoice choice = choose_graph(kDecode, mode, set, FullGraphs::kForbidden);
    EXPECT_EQ(choice.eager, EagerReason::kFullNotAllowed);
    EXPECT_THAT(eager_text(choice, kDecode, mode, set), HasSubstr("cannot be inside a graph"));
  }
  EXPECT_EQ(choose_graph(kMixed, GraphMode::kFullDecodeOnly, set, FullGraphs::kForbidden).eager, EagerReason::kMixedBatch);
  EXPECT_EQ(choose_graph(kLarge, GraphMode::kFull, set, FullGraphs::kForbidden).eager, EagerReason::kTooLarge);
}

TEST(ChooseDeath, ImpossibleBatchesAreBugs) {
  EXPECT_DEATH((void)choose_graph({3, 4, false}, GraphMode::kNone, buckets()), "4 rows of 3 tokens");
  EXPECT_DEATH((void)choose_graph({0, 0, false}, GraphMode::kNone, buckets()), "0 rows");
  EXPECT_DEATH((void)choose_graph({7, 7, true}, GraphMode::kFull, buckets()), "7 rows");
}

TEST(Record, MixedBeforeDecodeLargestFirst) {
  const BucketSet set({1, 2, 4}, {1, 2}, 1, 2);
  const auto whole = RuntimeMode::kFull, pieces = RuntimeMode::kPiecewise;
  using ::testing::ElementsAre;
  EXPECT_TRUE(keys_to_record(GraphMode::kNone, set).empty());
  EXPECT_THAT(keys_to_record(GraphMode::kPiecewise, set), ElementsAre(key(pieces, 4, 0), key(pieces, 2, 0), key(pieces, 1, 0)));
  EXPECT_THAT(keys_to_record(GraphMode::kFull, set), ElementsAre(key(whole, 4, 2), key(whole, 2, 2), key(whole, 1, 1)));
  EXPECT_THAT(keys_to_record(GraphMode::kFullDecodeOnly, set), ElementsAre(key(whole, 2, 2, true), key(whole, 1, 1, true)));
  EXPECT_THAT(keys_to_record(GraphMode::kFullAndPiecewise, set),
              ElementsAre(key(pieces, 4, 0), key(pieces, 2, 0), key(pieces, 1, 0), key(whole, 2, 2, true), key(whole, 1, 1, true)));
}

TEST(Property, EveryChoiceFitsAndIsRecorded) {
  auto rng = test::seeded_rng();
  const auto pick = [&](std::int32_t lo, std::int32_t hi) { return std::uniform_int_distribution<std::int32_t>(lo, hi)(rng); };
  int graphs = 0, eager = 0;
  for (int round = 0; round < 60; ++round) {
    const std::int32_t query_len = pick(1, 4), max_num_seqs = pick(1, 80);
    const BucketSet set = buckets(max_num_seqs, query_len);
    for (const GraphMode mode : kGraphModes) {
      const auto list = keys_to_record(mode, set);
      const std::unordered_set<GraphKey> recorded(list.begin(), list.end());
      EXPECT_EQ(recorded.size(), list.size());
      for (int i = 0; i < 50; ++i) {
        const std::int32_t rows = pick(1, max_num_seqs);
        const bool uniform = pick(0, 1) == 0;
        const std::int32_t tokens = uniform ? rows * query_len : rows + pick(0, 300);
        const BatchDescriptor batch = describe_batch(tokens, rows, uniform ? query_len : tokens - rows + 1, query_len);
        const auto full = pick(0, 3) == 0 ? FullGraphs::kForbidden : FullGraphs::kAllowed;
        const GraphChoice choice = choose_graph(batch, mode, set, full);
        EXPECT_EQ(eager_text(choice, batch, mode, set).empty(), choice.has_graph());
        EXPECT_EQ(choice.key.mode == RuntimeMode::kNone, !choice.has_graph());
        (choice.has_graph() ? graphs : eager)++;
        EXPECT_LE(choice.key.mode, batch.uniform ? decode_half(mode) : mixed_half(mode));
        if (!choice.has_graph()) {
          EXPECT_EQ(choice.key, (GraphKey{RuntimeMode::kNone, tokens, rows, batch.uniform}));
          continue;
        }
        EXPECT_TRUE(recorded.contains(choice.key)) << choice.key.describe();
        EXPECT_GE(choice.key.num_tokens, tokens);
        EXPECT_EQ(choice.key.num_tokens, choice.key.uniform ? set.padded_decode(tokens) : set.padded(tokens));
        if (choice.key.mode == RuntimeMode::kFull) {
          EXPECT_GE(choice.key.num_rows, rows);
          EXPECT_LE(choice.key.num_rows, max_num_seqs);
          EXPECT_EQ(full, FullGraphs::kAllowed);
        }
        if (choice.key.uniform) {
          EXPECT_TRUE(batch.uniform);
        }
      }
    }
  }
  EXPECT_GT(graphs, 1000);
  EXPECT_GT(eager, 1000);
}

}  // namespace
}  // namespace quire::graph
