// The fixture: poison is NaN and everywhere that it should be, tables are permutations, tokens stand where the slots say.
#include "kit/kv_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kit/compare.h"
#include "kit/guarded_buffer.h"
#include "kit/seed.h"
#include "reference/kv_cache.h"

namespace quire::test {
namespace {

KvCase small_case(DType dtype) {
  KvCase c;
  c.dtype = dtype;
  c.head_dim = 8;
  c.query_lens = {1, 5, 0, 33, 3};
  c.seq_lens = {17, 5, 0, 33, 50};
  c.padding_rows = 2;
  return c;
}

TEST(GuardedBuffer, PayloadIsPoisonedAndGuardsNoticeWrites) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    GuardedBuffer buffer(dtype, 10, 4);
    for (const double v : buffer.values()) EXPECT_TRUE(std::isnan(v));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 64, 4u);
    EXPECT_EQ(buffer.damage(), "");
    std::ranges::fill(buffer.bytes(), std::byte{0});
    EXPECT_EQ(buffer.damage(), "");
    buffer.bytes().data()[-1] ^= std::byte{1};
    EXPECT_NE(buffer.damage().find("sentinel byte -1 "), std::string::npos);
    buffer.bytes().data()[-1] ^= std::byte{1};
    buffer.bytes().data()[buffer.bytes().size()] ^= std::byte{0x80};
    EXPECT_NE(buffer.damage(), "");
  }
}

TEST(KvFixture, TokensStandInTheirSlotsAndAllElseIsNan) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    auto rng = seeded_rng();
    const KvBatch b = make_kv_batch(small_case(dtype), rng);
    std::int64_t finite = 0;
    for (std::int32_t layer = 0; layer < b.layout.num_layers; ++layer)
      for (std::int64_t block = 0; block < b.layout.num_blocks; ++block)
        for (std::int32_t head = 0; head < b.layout.num_kv_heads; ++head)
          for (std::int32_t t = 0; t < b.layout.block_size; ++t)
            finite += !std::isnan(reference::kv_read(b.layout, b.pool, {layer, block, kv::Part::kValue, head, t, 3}));
    EXPECT_EQ(finite, b.keys.rows * b.layout.num_kv_heads);
    for (std::int64_t row = 0; row < b.keys.rows; ++row) {
      const SlotId slot = b.slots[static_cast<std::size_t>(row)];
      const auto offset = static_cast<std::int32_t>(slot.value % 16);
      EXPECT_EQ(reference::kv_read(b.layout, b.pool, {b.shape.layer, slot.value / 16, kv::Part::kKey, 1, offset, 3}), b.keys.at(row, 8 + 3));
    }
  }
}

TEST(KvFixture, TablesArePermutedDisjointAndEndInPoison) {
  auto rng = seeded_rng();
  const KvBatch b = make_kv_batch(small_case(DType::kF32), rng);
  std::vector<std::int32_t> used;
  for (std::size_t s = 0; s < b.batch.block_tables.size(); ++s) {
    const auto& table = b.batch.block_tables[s];
    used.insert(used.end(), table.begin(), table.end() - 1);
    EXPECT_TRUE(std::isnan(reference::kv_read(b.layout, b.pool, {b.shape.layer, table.back(), kv::Part::kKey, 0, 0, 0})));
  }
  EXPECT_EQ(std::set(used.begin(), used.end()).size(), used.size());
  EXPECT_FALSE(std::ranges::is_sorted(used));
  EXPECT_EQ(b.flat_block_table().size(), b.batch.seq_lens.size() * static_cast<std::size_t>(b.max_blocks()));
}

TEST(KvFixture, HistoryLeavesThisStepsCellsPoisonedUntilTheyAreWritten) {
  auto rng = seeded_rng(), same = seeded_rng();
  KvBatch history = make_kv_batch(small_case(DType::kBF16), rng, Cached::kHistoryOnly);
  const KvBatch everything = make_kv_batch(small_case(DType::kBF16), same);
  EXPECT_FALSE(compare_bits(history.pool, everything.pool).equal);
  reference::kv_write(history.layout, history.pool, {history.shape.layer, history.new_keys(), history.new_values(), history.new_slots()});
  const Comparison c = compare_bits(history.pool, everything.pool, 2);
  EXPECT_TRUE(c.equal) << c.report;
  const auto slots = history.new_slots();
  EXPECT_EQ(std::ranges::count_if(slots, [](SlotId s) { return s.is_none(); }), 2);
}

TEST(KvFixture, PositionsEndAtTheLastToken) {
  auto rng = seeded_rng();
  const KvBatch b = make_kv_batch(small_case(DType::kF32), rng);
  const auto positions = b.positions();
  EXPECT_EQ(positions.front(), 16);
  EXPECT_EQ(positions[1], 0);
  EXPECT_EQ(positions[static_cast<std::size_t>(b.batch.query_start_loc[5]) - 1], 49);
  EXPECT_EQ(positions.back(), 0);
}

TEST(KvFixture, RandomLengthsAreValidAndVaried) {
  auto rng = seeded_rng();
  KvCase c;
  randomise_lengths(c, rng, 200, 70);
  std::set<bool> empties, decodes, whole;
  for (std::size_t s = 0; s < c.seq_lens.size(); ++s) {
    EXPECT_LE(c.query_lens[s], c.seq_lens[s]);
    empties.insert(c.seq_lens[s] == 0);
    decodes.insert(c.query_lens[s] == 1);
    whole.insert(c.query_lens[s] == c.seq_lens[s] && c.seq_lens[s] > 1);
  }
  EXPECT_EQ(empties.size() + decodes.size() + whole.size(), 6u);
}

}  // namespace
}  // namespace quire::test
