// Attention and the cache it reads: hand-computed rows, identities, and the edge cases that every backend must share.
#include "reference/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/compare.h"
#include "kit/guarded_buffer.h"
#include "kit/kv_fixture.h"
#include "kit/seed.h"
#include "reference/kv_cache.h"
#include "reference/rounding.h"

namespace quire::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Attend, UniformScoresAverageAndLseCountsKeys) {
  const Matrix keys(4, 2), values(4, 1, {1, 2, 3, 10});
  const HeadOutput y = attend(std::vector<double>{5, -3}, keys, values, 1.0);
  EXPECT_DOUBLE_EQ(y.out[0], 4.0);
  EXPECT_DOUBLE_EQ(y.lse, std::log(4.0));
}

TEST(Attend, HandComputedWeightsAndScale) {
  const Matrix keys(2, 1, {0, 2 * std::log(3.0)}), values(2, 2, {0, 8, 4, 0});
  const HeadOutput y = attend(std::vector<double>{1}, keys, values, 0.5);  // weights 1/4 and 3/4
  EXPECT_DOUBLE_EQ(y.out[0], 3.0);
  EXPECT_DOUBLE_EQ(y.out[1], 2.0);
  EXPECT_DOUBLE_EQ(y.lse, std::log(4.0));
}

TEST(Attend, LargeScoresDoNotOverflow) {
  const HeadOutput y = attend(std::vector<double>{1e4}, Matrix(2, 1, {1, -1}), Matrix(2, 1, {7, 9}), 1.0);
  EXPECT_EQ(y.out[0], 7.0);
  EXPECT_DOUBLE_EQ(y.lse, 1e4);
}

TEST(Attend, NothingVisibleGivesZeroAndMinusInfinity) {
  const HeadOutput none = attend(std::vector<double>{1, 1}, Matrix(0, 2), Matrix(0, 2), 1.0);
  EXPECT_EQ(none.out, (std::vector<double>{0, 0}));
  EXPECT_EQ(none.lse, -kInf);
  const HeadOutput masked = attend(std::vector<double>{1}, Matrix(2, 1, {-kInf, -kInf}), Matrix(2, 1, {1, 1}), 1.0);
  EXPECT_EQ(masked.out[0], 0.0);
  EXPECT_EQ(masked.lse, -kInf);
}

TEST(Attend, NanInAKeyReachesAllInAValueItsOwnDimension) {
  const HeadOutput key = attend(std::vector<double>{1}, Matrix(2, 1, {kNan, 0}), Matrix(2, 2, {1, 2, 3, 4}), 1.0);
  EXPECT_TRUE(std::isnan(key.out[0]) && std::isnan(key.out[1]) && std::isnan(key.lse));
  const HeadOutput only = attend(std::vector<double>{1}, Matrix(1, 1, {kNan}), Matrix(1, 1, {1}), 1.0);
  EXPECT_TRUE(std::isnan(only.out[0]));
  const HeadOutput value = attend(std::vector<double>{1}, Matrix(2, 1, {0, 0}), Matrix(2, 2, {kNan, 2, 3, 4}), 1.0);
  EXPECT_TRUE(std::isnan(value.out[0]));
  EXPECT_EQ(value.out[1], 3.0);
}

TEST(Masks, FirstVisible) {
  EXPECT_EQ(first_visible({}, 100), 0);
  EXPECT_EQ(first_visible({.window = 1}, 100), 100);
  EXPECT_EQ(first_visible({.window = 101}, 100), 0);
  EXPECT_EQ(first_visible({.window = 100}, 100), 1);
  EXPECT_EQ(first_visible({.chunk = 8192}, 8191), 0);
  EXPECT_EQ(first_visible({.chunk = 8192}, 8192), 8192);
  EXPECT_EQ(first_visible({.chunk = 8192}, 19999), 16384);
  EXPECT_EQ(first_visible({.window = 10, .chunk = 8192}, 8195), 8192);
  EXPECT_EQ(first_visible({.window = 2, .chunk = 8192}, 8195), 8194);
}

TEST(Masks, PublishedAlibiSlopes) {
  EXPECT_EQ(alibi_slopes(1), (std::vector<double>{1.0 / 256}));
  EXPECT_EQ(alibi_slopes(8), (std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}));
  const auto six = alibi_slopes(6), eight = alibi_slopes(8);
  ASSERT_EQ(six.size(), 6u);
  EXPECT_EQ(six[0], 0.25);
  EXPECT_EQ(six[4], eight[0]);
  EXPECT_EQ(six[5], eight[2]);
}

TEST(Masks, HandComputedSoftCapAlibiAndSink) {
  const Matrix keys(2, 1, {0, 4}), values(2, 1, {8, 2});
  EXPECT_DOUBLE_EQ(score(std::vector<double>{1}, keys.row(1), 3, {.scale = 0.5, .soft_cap = 4.0, .alibi_slope = 0.25}), 4.0 * std::tanh(0.5) - 0.75);
  // Scores 0 - ln 3 and 0: weights 1/4 and 3/4.
  EXPECT_DOUBLE_EQ(attend(std::vector<double>{0}, keys, values, {.scale = 1.0, .alibi_slope = std::log(3.0)}).out[0], 3.5);
  // A sink as large as each of two equal scores takes a third of the weight.
  const HeadOutput sunk = attend(std::vector<double>{0}, keys, values, {.scale = 1.0, .sink = 0.0});
  EXPECT_DOUBLE_EQ(sunk.out[0], 10.0 / 3);
  EXPECT_DOUBLE_EQ(sunk.lse, std::log(3.0));
  const HeadOutput alone = attend(std::vector<double>{0}, Matrix(0, 1), Matrix(0, 1), {.scale = 1.0, .sink = 2.0});
  EXPECT_EQ(alone.out[0], 0.0);
  EXPECT_EQ(alone.lse, 2.0);
  EXPECT_TRUE(std::isnan(attend(std::vector<double>{0}, keys, values, {.scale = 1.0, .sink = kNan}).out[0]));
  EXPECT_DOUBLE_EQ(attend(std::vector<double>{1}, Matrix(2, 1, {kInf, -kInf}), values, {.scale = 1.0, .soft_cap = 0.5}).out[0], (8 * std::exp(0.5) + 2 * std::exp(-0.5)) / (std::exp(0.5) + std::exp(-0.5)));
}

// The paged twin against one written another way: softmax over the token rows that the fixture kept, without pool or tables.
void expect_equals_unpaged(const test::KvBatch& b) {
  const double scale = 0.3;
  const AttentionOutput got = attention(b.question(scale), b.batch, b.queries);
  Matrix want(b.queries.rows, b.queries.cols), lse(b.queries.rows, b.shape.num_heads);
  std::ranges::fill(lse.values, -kInf);
  const std::int64_t d = b.shape.head_dim, group = b.shape.num_heads / b.shape.num_kv_heads;
  const auto positions = b.positions();
  for (std::size_t s = 0; s < b.shape.seq_lens.size(); ++s)
    for (std::int64_t row = b.batch.query_start_loc[s]; row < b.batch.query_start_loc[s + 1]; ++row)
      for (std::int64_t h = 0; h < b.shape.num_heads; ++h) {
        double sum = 0;
        std::vector<double> mixed(static_cast<std::size_t>(d), 0.0);
        for (std::int64_t t = 0; t <= positions[static_cast<std::size_t>(row)]; ++t) {
          double score = 0;
          for (std::int64_t i = 0; i < d; ++i) score += b.queries.at(row, h * d + i) * b.keys.at(b.token_start[s] + t, h / group * d + i);
          sum += std::exp(score * scale);
          for (std::int64_t i = 0; i < d; ++i)
            mixed[static_cast<std::size_t>(i)] += std::exp(score * scale) * b.values.at(b.token_start[s] + t, h / group * d + i);
        }
        for (std::int64_t i = 0; i < d; ++i) want.at(row, h * d + i) = mixed[static_cast<std::size_t>(i)] / sum;
        lse.at(row, h) = std::log(sum);
      }
  const auto c = test::compare(got.out.values, want.values, 1e-12);
  EXPECT_TRUE(c.equal) << c.report;
  const auto l = test::compare(got.lse.values, lse.values, 1e-12);
  EXPECT_TRUE(l.equal) << l.report;
}

TEST(PagedAttention, EqualsUnpagedAttentionOverRandomRaggedBatches) {
  auto rng = test::seeded_rng();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const auto& [heads, kv_heads, block] : {std::array{4, 4, 16}, std::array{6, 2, 32}, std::array{3, 1, 48}}) {
      test::KvCase c;
      c.dtype = dtype;
      c.num_heads = heads;
      c.num_kv_heads = kv_heads;
      c.block_size = block;
      c.head_dim = 10;
      c.padding_rows = 2;
      c.key_order = block == 32 ? kv::CellOrder::kTokenMajor : kv::CellOrder::kDimMajor;
      test::randomise_lengths(c, rng, 6, 75);
      expect_equals_unpaged(test::make_kv_batch(c, rng));
    }
}

TEST(PagedAttention, ChunksGiveTheRowsOfTheWholePrompt) {
  auto rng = test::seeded_rng();
  test::KvCase c;
  c.head_dim = 8;
  c.query_lens = c.seq_lens = {40};
  const test::KvBatch whole = test::make_kv_batch(c, rng);
  const AttentionOutput all = attention(whole.question(0.5), whole.batch, whole.queries);
  for (const std::int32_t first : {0, 1, 15, 16, 39}) {
    AttentionBatch tail = whole.batch;
    tail.query_start_loc = {0, 40 - first};
    Matrix queries(40 - first, whole.queries.cols);
    std::ranges::copy(whole.queries.values.begin() + first * whole.queries.cols, whole.queries.values.end(), queries.values.begin());
    const AttentionOutput part = attention(whole.question(0.5), tail, queries);
    EXPECT_TRUE(std::ranges::equal(part.out.values, std::span(all.out.values).last(part.out.values.size()))) << first;
  }
}

TEST(PagedAttention, EmptyBatchesZeroLengthsAndRowsBeforeTheFirstKey) {
  auto rng = test::seeded_rng();
  test::KvCase c;
  c.head_dim = 8;
  c.query_lens = {1};
  c.seq_lens = {1};
  const test::KvBatch b = test::make_kv_batch(c, rng);
  const AttentionOutput none = attention(b.question(1.0), {{0}, {}, {}}, Matrix(0, 32));
  EXPECT_EQ(none.out.rows, 0);
  // Two rows for a sequence of one token: the first stands before every key.
  const AttentionOutput early = attention(b.question(1.0), {{0, 2}, {1}, {b.batch.block_tables[0]}}, Matrix(2, 32));
  EXPECT_EQ(early.lse.at(0, 0), -kInf);
  EXPECT_EQ(early.out.at(0, 3), 0.0);
  EXPECT_EQ(early.out.at(1, 3), b.values.at(0, 3));
  // A sequence of length 0 needs no blocks at all.
  const AttentionOutput padding = attention(b.question(1.0), {{0, 1}, {0}, {{}}}, Matrix(1, 32));
  EXPECT_EQ(padding.lse.at(0, 2), -kInf);
  EXPECT_TRUE(std::ranges::all_of(padding.out.values, [](double v) { return v == 0.0; }));
}

TEST(KvCache, WritesRoundedValuesOnlyWhereTheSlotsSay) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const kv::KvLayout layout{1, 2, 3, 16, 2, dtype, kv::CellOrder::kDimMajor, kv::CellOrder::kTokenMajor};
    std::vector<std::byte> pool(static_cast<std::size_t>(layout.total_bytes()));
    test::poison(pool, dtype);
    const Matrix keys(2, 6, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 9, 9, 9, 9, 9, 9}), values(2, 6, {1.1, 1.2, 1.3, 1.4, 1.5, 1e300, 9, 9, 9, 9, 9, 9});
    kv_write(layout, pool, {0, keys, values, std::vector<SlotId>{SlotId{21}, SlotId::none()}});
    EXPECT_EQ(kv_read(layout, pool, {0, 1, kv::Part::kKey, 1, 5, 0}), round_to(dtype, 0.4));
    EXPECT_EQ(kv_read(layout, pool, {0, 1, kv::Part::kValue, 0, 5, 2}), round_to(dtype, 1.3));
    EXPECT_EQ(kv_read(layout, pool, {0, 1, kv::Part::kValue, 1, 5, 2}), kInf);
    std::int64_t written = 0;
    for (std::int64_t block = 0; block < 2; ++block)
      for (const kv::Part part : {kv::Part::kKey, kv::Part::kValue})
        for (std::int32_t head = 0; head < 2; ++head)
          for (std::int32_t t = 0; t < 16; ++t)
            for (std::int32_t d = 0; d < 3; ++d) written += !std::isnan(kv_read(layout, pool, {0, block, part, head, t, d}));
    EXPECT_EQ(written, 12);
    EXPECT_DEATH(kv_write(layout, pool, {0, keys, values, std::vector<SlotId>{SlotId{32}, SlotId::none()}}), "");
  }
}

// The bytes themselves, not only what our own reader makes of them.
TEST(KvCache, StoresLittleEndianElementsAtTheLayoutsPlace) {
  const kv::KvLayout layout{1, 1, 2, 16, 1, DType::kBF16, kv::CellOrder::kDimMajor, kv::CellOrder::kTokenMajor};
  std::vector<std::byte> pool(static_cast<std::size_t>(layout.total_bytes()));
  kv_write(layout, pool, {0, Matrix(1, 2, {1.0, -2.0}), Matrix(1, 2, {1.0, -2.0}), std::vector<SlotId>{SlotId{3}}});
  const auto at = [&](std::size_t element) {
    return std::pair(std::to_integer<int>(pool[2 * element]), std::to_integer<int>(pool[2 * element + 1]));
  };
  EXPECT_EQ(at(3), std::pair(0x80, 0x3f));       // key dim 0, token 3
  EXPECT_EQ(at(16 + 3), std::pair(0x00, 0xc0));  // key dim 1
  EXPECT_EQ(at(32 + 6), std::pair(0x80, 0x3f));  // value token 3, dim 0
  EXPECT_EQ(at(32 + 7), std::pair(0x00, 0xc0));
}

}  // namespace
}  // namespace quire::reference
