// Both CPU backends against the float64 twin: every head size, group, block size and storage type, at lengths around tiles and partitions.
#include <gtest/gtest.h>

#include "attention/attention_rig.h"
#include "attention/params.h"
#include "kit/compare.h"
#include "kit/seed.h"

namespace quire {
namespace {

using test::ShapeCase;

void check(const ShapeCase& c, std::mt19937_64& rng) {
  SCOPED_TRACE(c.describe());
  const test::KvBatch b = test::make_kv_batch(c.kv_case(), rng);
  test::AttentionStep step(b);
  const auto unified = step.run("CPU_UNIFIED"), split = step.run("CPU_SPLIT");
  test::expect_right(b, step.scale, {}, unified, "CPU_UNIFIED");
  const auto same = test::compare_bits(split, unified);
  EXPECT_TRUE(same.equal) << "split and unified differ: " << same.report;
}

constexpr std::int32_t kHeadDims[] = {8, 16, 32, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256};
constexpr std::int32_t kGroups[] = {1, 2, 3, 4, 7, 8, 16, 32};
constexpr std::int32_t kBlockSizes[] = {16, 32, 48, 64, 128};
constexpr std::int32_t kLengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2};

// Every head size with every group; storage, block size and lengths rotate.
class HeadDims : public ::testing::TestWithParam<std::int32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, HeadDims, ::testing::ValuesIn(kHeadDims));
TEST_P(HeadDims, EveryGroup) {
  auto rng = test::seeded_rng();
  for (const std::int32_t group : kGroups) {
    ShapeCase c{.dtype = kTypes[rng() % 6], .head_dim = GetParam(), .block_size = kBlockSizes[rng() % 5]};
    c.num_kv_heads = group <= 4 ? 2 : 1;
    c.num_heads = group * c.num_kv_heads;
    const auto length = [&] { return kLengths[rng() % 11]; };
    const std::int32_t decode = length(), whole = std::min(length(), 17), cached = length();
    c.lens = {{1, decode}, {whole, whole}, {3, cached + 3}};
    check(c, rng);
  }
}

// Every number of query heads for one KV head that the table promises, in each row class.
TEST(AttentionReference, EveryGroup) {
  auto rng = test::seeded_rng();
  for (std::int32_t group = 1; group <= attention::kMaxGroup; ++group)
    check({.dtype = kTypes[group % 3], .num_heads = group, .num_kv_heads = 1, .head_dim = 32, .block_size = kBlockSizes[group % 5], .lens = {{1, 70}, {3, 40}, {9, 9}, {1, 520}}}, rng);
}

TEST(AttentionReference, EveryStorageAndBlockSize) {
  auto rng = test::seeded_rng();
  for (const DType dtype : kTypes)
    for (const std::int32_t block : kBlockSizes)
      for (const std::int32_t d : {10, 40, 64})  // 10: no whole vector, 40: a vector and a tail
        check({.dtype = dtype, .head_dim = d, .block_size = block, .lens = {{1, 130}, {2, 66}, {0, 40}, {33, 33}, {1, 1}, {5, 70}}}, rng);
}

TEST(AttentionReference, AroundTilesAndPartitions) {
  auto rng = test::seeded_rng();
  for (const std::int32_t n : {63, 64, 65, 511, 512, 513, 575, 577, 1023, 1024, 1025, 1100})
    for (const std::int32_t group : {1, 3, 8}) {
      ShapeCase c{.dtype = kTypes[rng() % 6], .num_heads = group, .num_kv_heads = 1, .head_dim = 32, .block_size = kBlockSizes[rng() % 5]};
      c.lens = {{1, n}, {4, n + 1}};
      check(c, rng);
    }
}

// Sharp distributions: rescaling between tiles is the whole result.
TEST(AttentionReference, LargeScores) {
  auto rng = test::seeded_rng();
  check({.dtype = DType::kF32, .head_dim = 64, .lens = {{1, 700}, {5, 5}, {9, 200}}, .magnitude = 3.0}, rng);
}

TEST(AttentionReference, RandomRaggedBatches) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 12; ++round) {
    test::KvCase c = ShapeCase{.dtype = kTypes[round % 6], .num_heads = 6, .num_kv_heads = 2, .head_dim = 16, .block_size = kBlockSizes[rng() % 5], .padding_rows = 3}.kv_case();
    test::randomise_lengths(c, rng, 7, 90);
    const test::KvBatch b = test::make_kv_batch(c, rng);
    test::AttentionStep step(b);
    for (const char* backend : test::kBackends) test::expect_right(b, step.scale, {}, step.run(backend), backend);
  }
}

}  // namespace
}  // namespace quire
