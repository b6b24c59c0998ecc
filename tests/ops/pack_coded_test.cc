// GGUF's blocks in panels: every number stays what the reference reads in the file, and what cannot be served is refused with its place.
#include <gtest/gtest.h>

#include <cstring>

#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/coded_kit.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "ops/pack.h"
#include "reference/gguf_blocks.h"

namespace quire {
namespace {

using gguf::TensorType;

class PackCoded : public ::testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(Types, PackCoded, ::testing::ValuesIn(test::kCodedTypes), [](const auto& p) { return std::string(gguf::facts_of(p.param).name); });

TEST_P(PackCoded, EveryNumberIsTheReferences) {
  auto rng = test::seeded_rng();
  for (const std::int64_t rows : {1, 63, 64, 65, 130}) {
    const test::CodedWeight w({{GetParam(), rows}}, 768, false, rng);
    for (std::int64_t n = 0; n < rows; ++n) {
      const auto got = w.numbers(n).values();
      const auto want = w.values.row(n);
      const auto c = test::compare(got.values, want, 0.0);  // a product and a sum of so few bits are exact in float64
      ASSERT_TRUE(c.equal) << "row " << n << ": " << c.report;
    }
  }
}

// What fills up the last panel gives zeros.
TEST_P(PackCoded, OutputsPastTheLastAreZero) {
  auto rng = test::seeded_rng();
  const test::CodedWeight w({{GetParam(), 5}}, 256, false, rng);
  const ops::CodedLayout& layout = ops::coded_layout(w.weight.format);
  for (std::int64_t n = 5; n < ops::kPanel; ++n)
    for (std::int64_t g = 0; g < 256 / layout.group; ++g) {
      const ops::CodedGroup group = ops::coded_group(layout, 256, w.weight.coded[0].packed, n, g);
      EXPECT_EQ(group.scale, 0.0f);
      EXPECT_EQ(group.offset, 0.0f);
    }
}

TEST_P(PackCoded, AScaleOrOffsetThatIsNotFiniteIsRefusedWithItsPlace) {
  auto rng = test::seeded_rng();
  const gguf::TypeFacts& facts = gguf::facts_of(GetParam());
  const ops::CodedLayout& layout = ops::coded_layout(ops::coded_format(GetParam()));
  std::vector<std::byte> target(ops::coded_bytes(layout.format, 3, 512));
  const std::string good = test::random_blocks(GetParam(), 3, 512, rng);
  const std::size_t first_half = GetParam() == TensorType::kQ6K ? 208 : 0, blocks = static_cast<std::size_t>(512 / facts.block_elements), block = (2 * blocks + 1) * static_cast<std::size_t>(facts.block_bytes);
  const auto refused = [&](std::size_t at, std::uint16_t bits, const std::string& what) {
    std::string bytes = good;
    std::memcpy(bytes.data() + block + at, &bits, sizeof bits);
    const Status s = ops::pack_gguf_rows({"blk.0.w", GetParam(), std::as_bytes(std::span(bytes)), 3, 512}, target.data());
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(s.error().message, "blk.0.w: a " + what + " of elements [2, " + std::to_string(facts.block_elements) + "] on is NaN or infinite; refusing to serve these weights");
  };
  refused(first_half, 0x7e00, "scale");
  refused(first_half, 0xfc00, "scale");
  if (layout.offsets) refused(2, 0x7c00, "offset");
}

TEST_P(PackCoded, AnEmbeddingsRowsAreTheTablesRounded) {
  auto rng = test::seeded_rng();
  const test::CodedWeight w({{GetParam(), 150}}, 256, false, rng);
  const ops::EmbeddingTable table{w.weight.format, 150, 256, w.weight.coded[0].packed, ops::kPanel};
  const std::vector<std::int32_t> ids{149, 0, 63, 64, 65, 127, 128, 0, 77};
  for (const int threads : {1, 2}) {
    test::GuardedActs out(std::ssize(ids), 256);
    ops::embed(test::op_stream(threads), ids.data(), table, out.tensor());
    EXPECT_EQ(out.buffer.damage(), "");
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::int64_t i = 0; i < 256; ++i) ASSERT_EQ(out.row(static_cast<std::int64_t>(t))[static_cast<std::size_t>(i)], static_cast<float>(w.values.at(ids[t], i))) << "token " << t << ", " << i;
  }
}

TEST(PackCodedDeath, AnIdOutsideTheTableAndARowMajorTableEndTheProcess) {
  auto rng = test::seeded_rng();
  const test::CodedWeight w({{TensorType::kQ8_0, 10}}, 64, false, rng);
  const ops::EmbeddingTable table{w.weight.format, 10, 64, w.weight.coded[0].packed, ops::kPanel};
  const std::int32_t id = 10;
  test::GuardedActs out(1, 64);
  EXPECT_DEATH(ops::embed(test::op_stream(), &id, table, out.tensor()), "token id 10");
  ops::EmbeddingTable rows = table;
  rows.panel = 1;
  EXPECT_DEATH(ops::embed(test::op_stream(), &id, rows, out.tensor()), "packed");
}

// The memory that a weight takes, to be seen when it changes: bits for each number, in whole panels.
TEST(CodedLayout, BitsForEachNumber) {
  const auto bits = [](ops::WeightFormat f) { return 8.0 * static_cast<double>(ops::coded_bytes(f, 64, 1024)) / (64.0 * 1024.0); };
  EXPECT_EQ(bits(ops::WeightFormat::kQ4_0), 4.5);
  EXPECT_EQ(bits(ops::WeightFormat::kQ4_1), 5.0);
  EXPECT_EQ(bits(ops::WeightFormat::kQ5_0), 8.5);
  EXPECT_EQ(bits(ops::WeightFormat::kQ5_1), 9.0);
  EXPECT_EQ(bits(ops::WeightFormat::kQ8_0), 8.5);
  EXPECT_EQ(bits(ops::WeightFormat::kQ4K), 4.625);
  EXPECT_EQ(bits(ops::WeightFormat::kQ5K), 8.625);
  EXPECT_EQ(bits(ops::WeightFormat::kQ6K), 8.5625);
}

}  // namespace
}  // namespace quire
