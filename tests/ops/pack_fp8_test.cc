// FP8 weights while loading: a checkpoint's bytes keep their numbers in either encoding, and wider weights are quantised as stated.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/op_kit.h"
#include "ops/pack.h"
#include "reference/rounding.h"

namespace quire {
namespace {

using reference::Matrix;
constexpr ops::WeightFormat kFormats[] = {ops::WeightFormat::kFp8E4m3, ops::WeightFormat::kFp8E4m3Fnuz};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::size_t packed_at(std::int64_t row, std::int64_t column, std::int64_t k) { return static_cast<std::size_t>(row / 64 * 64 * k + column * 64 + row % 64); }

// All 254 numbers, in rows that begin inside a panel and end in another.
TEST(PackFp8, EveryNumberKeepsItsValueTimesTheFactorOfItsScale) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 256; ++i)
    if ((i & 0x7f) != 0x7f) bytes.push_back(static_cast<std::byte>(i));
  const std::int64_t rows = 127, columns = 2, first = 40;
  for (const ops::WeightFormat format : kFormats) {
    const DType dtype = ops::storage_dtype(format);
    test::GuardedBuffer target(dtype, ops::Weight::packed_bytes(format, first + rows, columns));
    ASSERT_TRUE(ops::pack_fp8_rows({"w", DType::kFp8E4m3, bytes, rows, columns}, format, first, target.bytes().data()).ok());
    EXPECT_EQ(target.damage(), "");
    std::vector<double> want(target.bytes().size(), kNan);  // what is not its own stays as it was
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        want[packed_at(first + r, c, columns)] = reference::decode(DType::kFp8E4m3, std::to_integer<std::uint32_t>(bytes[static_cast<std::size_t>(r * columns + c)])) /
                                                 static_cast<double>(ops::ocp_scale_factor(format));
    const auto c = test::compare(target.values(), want, 0.0);
    EXPECT_TRUE(c.equal) << dtype_name(dtype) << ": " << c.report;
  }
}

TEST(PackFp8, ANanIsRefusedWithItsPlace) {
  for (const std::byte nan : {std::byte{0x7f}, std::byte{0xff}})
    for (const ops::WeightFormat format : kFormats) {
      std::vector<std::byte> bytes(6), target(1 << 12);
      bytes[4] = nan;
      const Status s = ops::pack_fp8_rows({"model.x.weight", DType::kFp8E4m3, bytes, 2, 3}, format, 0, target.data());
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, ErrorCode::kCorrupt);
      EXPECT_NE(s.error().message.find("model.x.weight: element [1, 1] is NaN"), std::string::npos) << s.error().message;
    }
}

TEST(QuantiseRows, RoundsToNearestAndReachesTheLargestNumber) {
  auto rng = test::seeded_rng();
  for (const DType from : test::kStorageTypes)
    for (const ops::WeightFormat format : kFormats)
      for (const auto& [first, rows, columns] : {std::array<std::int64_t, 3>{0, 64, 5}, {0, 1, 1}, {3, 70, 7}, {100, 129, 3}}) {
        const DType dtype = ops::storage_dtype(format);
        Matrix m = test::random_matrix(rows, columns, from, 0.02, rng);
        m.at(rows / 2, columns / 2) = -0.25;
        const auto bytes = test::raw_bytes(m, from);
        const ops::RawMatrix raw{"w", from, bytes, rows, columns};
        const Result<float> scale = ops::quantising_scale(raw, format);
        ASSERT_TRUE(scale.ok());
        EXPECT_EQ(scale.value(), 0.25f / (format == ops::WeightFormat::kFp8E4m3 ? 448.0f : 240.0f));
        test::GuardedBuffer target(dtype, ops::Weight::packed_bytes(format, first + rows, columns));
        ASSERT_TRUE(ops::quantise_rows(raw, format, scale.value(), first, target.bytes().data()).ok());
        EXPECT_EQ(target.damage(), "");
        std::vector<double> want(target.bytes().size(), kNan);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c)
            want[packed_at(first + r, c, columns)] = reference::round_to(dtype, reference::round_to(DType::kF32, m.at(r, c) / static_cast<double>(scale.value())));
        const auto c = test::compare(target.values(), want, 0.0);
        EXPECT_TRUE(c.equal) << dtype_name(from) << " to " << dtype_name(dtype) << ": " << c.report;
      }
}

TEST(QuantiseRows, SaturatesUnderASmallerScaleAndZerosHaveScaleOne) {
  const auto bytes = test::raw_bytes(Matrix(1, 3, {1000.0, -1000.0, 1.0}), DType::kBF16);
  const ops::RawMatrix raw{"w", DType::kBF16, bytes, 1, 3};
  for (const ops::WeightFormat format : kFormats) {
    const DType dtype = ops::storage_dtype(format);
    std::vector<std::uint8_t> target(3 * 64);
    ASSERT_TRUE(ops::quantise_rows(raw, format, 1.0f, 0, target.data()).ok());
    const double largest = format == ops::WeightFormat::kFp8E4m3 ? 448.0 : 240.0;
    EXPECT_EQ(reference::decode(dtype, target[0]), largest);
    EXPECT_EQ(reference::decode(dtype, target[64]), -largest);
    EXPECT_EQ(reference::decode(dtype, target[128]), 1.0);
    const std::vector<std::byte> zeros(8);
    EXPECT_EQ(ops::quantising_scale({"w", DType::kF32, zeros, 1, 2}, format).value(), 1.0f);
  }
}

TEST(QuantiseRows, NanAndInfinityAreRefusedWithTheirPlace) {
  for (const double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    const auto bytes = test::raw_bytes(Matrix(2, 2, {1.0, 2.0, bad, 4.0}), DType::kF32);
    const ops::RawMatrix raw{"model.x.weight", DType::kF32, bytes, 2, 2};
    std::vector<std::byte> target(1 << 12);
    const Status quantised = ops::quantise_rows(raw, ops::WeightFormat::kFp8E4m3, 1.0f, 0, target.data());
    const Result<float> scale = ops::quantising_scale(raw, ops::WeightFormat::kFp8E4m3);
    ASSERT_FALSE(quantised.ok() || scale.ok());
    for (const Error& e : {quantised.error(), scale.error()}) EXPECT_NE(e.message.find("model.x.weight: element [1, 0]"), std::string::npos) << e.message;
  }
}

}  // namespace
}  // namespace quire
