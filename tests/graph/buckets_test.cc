// Capture sizes: derived, asked for, contradictory; padding.
#include "graph/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kit/seed.h"

namespace quire::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

BucketRequest limits(std::int32_t max_num_seqs, std::int32_t max_num_batched_tokens, std::int32_t query_len = 1) {
  return {.mode = GraphMode::kFullAndPiecewise,
          .decode_query_len = query_len,
          .max_num_seqs = max_num_seqs,
          .max_num_batched_tokens = max_num_batched_tokens};
}
Buckets chosen(const BucketRequest& request) { return choose_buckets(request).value(); }

TEST(Derived, VllmsGrid) {
  EXPECT_THAT(chosen(limits(1, 2048)).set.sizes(), ElementsAre(1, 2));
  EXPECT_THAT(chosen(limits(4, 2048)).set.sizes(), ElementsAre(1, 2, 4, 8));
  const Buckets large = chosen(limits(1024, 131072));
  std::vector<std::int32_t> expected{1, 2, 4};
  for (std::int32_t size = 8; size < 256; size += 8) expected.push_back(size);
  for (std::int32_t size = 256; size <= 512; size += 16) expected.push_back(size);
  EXPECT_EQ(std::vector<std::int32_t>(large.set.sizes().begin(), large.set.sizes().end()), expected);
  EXPECT_EQ(expected.size(), 51u);
  EXPECT_THAT(large.notes, IsEmpty());
}

TEST(Derived, EndsAtTheLargestBatch) {
  EXPECT_THAT(chosen(limits(64, 50)).set.sizes(), ElementsAre(1, 2, 4, 8, 16, 24, 32, 40, 48, 50));
  EXPECT_THAT(chosen(limits(64, 48)).set.sizes(), ElementsAre(1, 2, 4, 8, 16, 24, 32, 40, 48));
  EXPECT_THAT(chosen(limits(64, 3)).set.sizes(), ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen(limits(64, 1)).set.sizes(), ElementsAre(1));
  // 10 tokens are the ceiling and not a batch's limit: no graph of 10.
  EXPECT_THAT(chosen(limits(5, 2048)).set.sizes(), ElementsAre(1, 2, 4, 8));
}

TEST(Derived, DecodeSizesEndAtTheMostRows) {
  EXPECT_THAT(chosen(limits(5, 2048)).set.decode_sizes(), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(chosen(limits(16, 2048)).set.decode_sizes(), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(chosen(limits(300, 2048)).set.max_decode_size(), 300);
  EXPECT_EQ(chosen(limits(1024, 2048)).set.max_decode_size(), 512);
  EXPECT_EQ(chosen(limits(64, 50)).set.max_decode_size(), 50);
}

TEST(Derived, DecodeSizesAreWholeRows) {
  const Buckets three = chosen(limits(8, 2048, 3));
  EXPECT_THAT(three.set.sizes(), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48));
  EXPECT_THAT(three.set.decode_sizes(), ElementsAre(3, 6, 9, 12, 18, 24));
  // A batch of 7 tokens holds two rows of 3.
  EXPECT_THAT(chosen(limits(8, 7, 3)).set.decode_sizes(), ElementsAre(3, 6));
  EXPECT_THAT(choose_buckets(limits(8, 2, 3)).error().message, HasSubstr("no size holds a decode row of 3 tokens"));
}

TEST(Derived, LargestSizeAsAsked) {
  BucketRequest request = limits(1024, 2048);
  request.max_size = 20;
  EXPECT_THAT(chosen(request).set.sizes(), ElementsAre(1, 2, 4, 8, 16, 20));
  request.max_size = 1024;
  EXPECT_EQ(chosen(request).set.max_size(), 1024);
  request.max_size = 4096;
  EXPECT_EQ(chosen(request).set.max_size(), 2048);
  EXPECT_THAT(chosen(request).notes, ElementsAre("--max-cudagraph-capture-size 4096 is cut to --max-num-batched-tokens 2048: no batch is larger"));
  request.max_size = 0;
  EXPECT_THAT(chosen(request).set.sizes(), IsEmpty());
  EXPECT_THAT(chosen(request).notes, ElementsAre(HasSubstr("no batch has a graph")));
}

TEST(Asked, SortedOnceEachAndDropped) {
  BucketRequest request = limits(64, 100);
  request.sizes = {64, 1, 8, 8, 200, 101};
  const Buckets buckets = chosen(request);
  EXPECT_THAT(buckets.set.sizes(), ElementsAre(1, 8, 64));
  EXPECT_THAT(buckets.set.decode_sizes(), ElementsAre(1, 8, 64));
  EXPECT_THAT(buckets.notes, ElementsAre(HasSubstr("repeated"), AllOf(HasSubstr("dropped 101, 200"), HasSubstr("--max-num-batched-tokens 100"),
                                                                      HasSubstr("the largest is now 64"))));
  request.sizes = {200};
  EXPECT_THAT(chosen(request).set.sizes(), IsEmpty());
  EXPECT_THAT(chosen(request).notes, ElementsAre(HasSubstr("no size is left")));
}

TEST(Asked, DecodeSizesStayWithinRowsAndList) {
  BucketRequest request = limits(5, 2048);
  request.sizes = {2, 4, 8};
  EXPECT_THAT(chosen(request).set.decode_sizes(), ElementsAre(2, 4));
  request = limits(8, 2048, 3);
  request.sizes = {1, 2, 4};
  EXPECT_THAT(chosen(request).set.decode_sizes(), ElementsAre(3));  // 6 is above the list
  EXPECT_THAT(chosen(request).set.sizes(), ElementsAre(1, 2, 4));
  request.sizes = {1, 2};
  EXPECT_FALSE(choose_buckets(request).ok());
  request.mode = GraphMode::kPiecewise;
  EXPECT_TRUE(choose_buckets(request).ok());
}

TEST(Asked, WrongValuesAreRefusedByName) {
  BucketRequest request = limits(64, 2048);
  request.sizes = {1, 16};
  request.max_size = 32;
  EXPECT_THAT(choose_buckets(request).error().message, AllOf(HasSubstr("--max-cudagraph-capture-size 32"), HasSubstr("largest is 16")));
  request.max_size = 16;
  EXPECT_TRUE(choose_buckets(request).ok());
  request.max_size = 0;
  EXPECT_FALSE(choose_buckets(request).ok());
  request.max_size.reset();
  for (const std::int32_t size : {0, -1, INT32_MIN, kMaxCaptureSize + 1, INT32_MAX}) {
    request.sizes = {4, size};
    const auto wrong = choose_buckets(request);
    ASSERT_FALSE(wrong.ok()) << size;
    EXPECT_THAT(wrong.error().message, AllOf(HasSubstr(std::to_string(size)), HasSubstr("1 to 65536")));
  }
  request.sizes.clear();
  for (const std::int32_t size : {-1, INT32_MIN, kMaxCaptureSize + 1, INT32_MAX}) {
    request.max_size = size;
    EXPECT_THAT(choose_buckets(request).error().message, HasSubstr("0 to 65536")) << size;
  }
}

TEST(Asked, NoneHasNoSizes) {
  BucketRequest request = limits(64, 2048);
  request.mode = GraphMode::kNone;
  request.sizes = {4};
  EXPECT_THAT(chosen(request).set.sizes(), IsEmpty());
  EXPECT_EQ(chosen(request).set.padded(1), 0);
}

TEST(Padding, OutsideIsZero) {
  const BucketSet set({2, 8}, {2}, 1, 4);
  for (const std::int32_t n : {INT32_MIN, -1, 0, 9, INT32_MAX}) EXPECT_EQ(set.padded(n), 0) << n;
  EXPECT_EQ(set.padded(1), 2);
  EXPECT_EQ(set.padded(3), 8);
  EXPECT_EQ(set.padded(8), 8);
  EXPECT_EQ(set.padded_decode(3), 0);
}

TEST(PaddingDeath, BadListsAreBugs) {
  EXPECT_DEATH(BucketSet({2, 2}, {}, 1, 4), "2, 2");
  EXPECT_DEATH(BucketSet({0, 2}, {}, 1, 4), "0, 2");
  EXPECT_DEATH(BucketSet({4}, {4}, 3, 4), "decode size 4");
  EXPECT_DEATH(BucketSet({8}, {8}, 1, 4), "decode size 8");
}

// Random requests against the definition, size by size.
TEST(Property, PaddingIsTheNextBucket) {
  auto rng = test::seeded_rng();
  const auto pick = [&](std::int32_t lo, std::int32_t hi) { return std::uniform_int_distribution<std::int32_t>(lo, hi)(rng); };
  std::int32_t with_graphs = 0;
  for (int round = 0; round < 400; ++round) {
    BucketRequest request = limits(pick(1, 700), pick(1, 3000), pick(1, 4));
    request.mode = kGraphModes[static_cast<std::size_t>(pick(1, 4))];
    if (pick(0, 1) == 0) {
      for (int i = pick(1, 6); i > 0; --i) request.sizes.push_back(pick(1, 1500));
    } else if (pick(0, 2) == 0) {
      request.max_size = pick(0, 2000);
    }
    const auto result = choose_buckets(request);
    if (!result.ok()) {
      EXPECT_GT(request.decode_query_len, 1) << result.error().message;
      continue;
    }
    const BucketSet& set = result->set;
    with_graphs += set.sizes().empty() ? 0 : 1;
    EXPECT_LE(set.max_size(), request.max_num_batched_tokens);
    std::int32_t last = 0, last_decode = 0;
    for (std::int32_t n = 1; n <= set.max_size() + 2; ++n) {
      const auto next = std::lower_bound(set.sizes().begin(), set.sizes().end(), n);
      ASSERT_EQ(set.padded(n), next == set.sizes().end() ? 0 : *next) << n;
      const auto decode = std::lower_bound(set.decode_sizes().begin(), set.decode_sizes().end(), n);
      ASSERT_EQ(set.padded_decode(n), decode == set.decode_sizes().end() ? 0 : *decode) << n;
      if (n <= set.max_size()) {
        ASSERT_GE(set.padded(n), last);
      }
      if (n <= set.max_decode_size()) {
        ASSERT_GE(set.padded_decode(n), last_decode);
      }
      last = set.padded(n), last_decode = set.padded_decode(n);
    }
    for (const std::int32_t size : set.decode_sizes()) {
      EXPECT_EQ(size % request.decode_query_len, 0);
      EXPECT_GE(size, request.decode_query_len);
      EXPECT_LE(size, request.decode_query_len * request.max_num_seqs);
      EXPECT_LE(size, request.max_num_batched_tokens);
    }
    // The chosen list, asked for, is itself.
    BucketRequest again = request;
    again.sizes.assign(set.sizes().begin(), set.sizes().end());
    again.max_size.reset();
    const auto twice = choose_buckets(again);
    if (set.sizes().empty() || !twice.ok()) continue;
    EXPECT_TRUE(std::equal(set.sizes().begin(), set.sizes().end(), twice->set.sizes().begin(), twice->set.sizes().end()));
    EXPECT_THAT(twice->notes, IsEmpty());
  }
  EXPECT_GT(with_graphs, 200);
}

}  // namespace
}  // namespace quire::graph
