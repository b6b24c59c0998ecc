// Checkpoint bytes into packed weights: every element in its place, rounded once, from any alignment; what does not fit is refused by name.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/op_kit.h"
#include "ops/pack.h"
#include "reference/rounding.h"

namespace quire {
namespace {

using reference::Matrix;

// Bytes at an odd address, as a mapped file may have them.
struct OddBytes {
  explicit OddBytes(const std::vector<std::byte>& b) : memory(b.size() + 1), view(std::span(memory).subspan(1)) { std::copy(b.begin(), b.end(), view.begin()); }
  std::vector<std::byte> memory;
  std::span<std::byte> view;
};

TEST(Pack, EveryElementOnceInItsPanelForEveryPairOfTypes) {
  auto rng = test::seeded_rng();
  for (const DType from : test::kStorageTypes)
    for (const DType to : test::kStorageTypes)
      for (const auto& [first, rows, columns] : {std::array<std::int64_t, 3>{0, 64, 5}, {0, 1, 1}, {3, 70, 7}, {64, 64, 3}, {63, 2, 9}, {100, 129, 1}}) {
        const Matrix m = test::random_matrix(rows, columns, from, 1.0, rng);
        const OddBytes bytes(test::raw_bytes(m, from));
        const auto format = test::format_of(to);
        test::GuardedBuffer target(to, ops::Weight::packed_bytes(format, first + rows, columns) / dtype_bytes(to));
        ASSERT_TRUE(ops::pack_rows({"w", from, bytes.view, rows, columns}, format, first, target.bytes().data()).ok());
        EXPECT_EQ(target.damage(), "");
        const auto got = target.values();
        std::vector<double> want(got.size(), std::numeric_limits<double>::quiet_NaN());  // what is not its own stays as it was
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c) {
            const std::int64_t n = first + r, panel = n / 64;
            want[static_cast<std::size_t>(panel * 64 * columns + c * 64 + (n - panel * 64))] = reference::round_to(to, m.at(r, c));
          }
        const auto c = test::compare(got, want, 0.0);
        EXPECT_TRUE(c.equal) << dtype_name(from) << " to " << dtype_name(to) << ", rows from " << first << ": " << c.report;
      }
}

TEST(Pack, RowMajorAndFloat) {
  auto rng = test::seeded_rng();
  for (const DType from : test::kStorageTypes) {
    const Matrix m = test::random_matrix(5, 13, from, 1.0, rng);
    const OddBytes bytes(test::raw_bytes(m, from));
    for (const DType to : test::kStorageTypes) {
      test::GuardedBuffer target(to, 65);
      ASSERT_TRUE(ops::store_rows({"w", from, bytes.view, 5, 13}, test::format_of(to), target.bytes().data()).ok());
      std::vector<double> want;
      for (const double v : m.values) want.push_back(reference::round_to(to, v));
      EXPECT_TRUE(test::compare(target.values(), want, 0.0).equal);
      EXPECT_EQ(target.damage(), "");
    }
    test::GuardedBuffer floats(DType::kF32, 65);
    ASSERT_TRUE(ops::store_f32({"w", from, bytes.view, 5, 13}, floats.as<float>().data()).ok());
    EXPECT_TRUE(test::compare(floats.values(), m.values, 0.0).equal);
  }
}

// The conversions of base/dtype.h against the twin that shares nothing with them: neighbourhoods of every half, and random patterns.
TEST(Pack, RoundingIsTheTwins) {
  auto rng = test::seeded_rng();
  std::vector<float> inputs;
  for (std::uint32_t i = 0; i < 65536; i += 3) {
    const float h = to_float(Float16{static_cast<std::uint16_t>(i)});
    if (!std::isfinite(h)) continue;
    const float middle = std::nextafter(h, 1e9f) == h ? h : h * (1.0f + 0x1p-11f);
    for (const float v : {h, middle, std::nextafter(middle, 1e9f), std::nextafter(middle, -1e9f)}) inputs.push_back(v);
  }
  for (int i = 0; i < 100'000; ++i) {
    const auto v = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (std::isfinite(v)) inputs.push_back(v);
  }
  for (const float v : {0.0f, -0.0f, 65504.0f, 65519.99f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, -0x1p-149f, 3.4e38f}) inputs.push_back(v);
  for (const float v : inputs) {
    const double wide = static_cast<double>(v);
    ASSERT_EQ(to_float16(v).bits, reference::encode(DType::kF16, wide)) << v;
    ASSERT_EQ(to_bfloat16(v).bits, reference::encode(DType::kBF16, wide)) << v;
  }
}

TEST(Pack, AValueThatOverflowsIsRefusedWithItsPlace) {
  const Matrix m(2, 3, {1, 2, 3, 4, 65520, 6});
  const auto bytes = test::raw_bytes(m, DType::kF32);
  std::vector<std::byte> target(1 << 12);
  const ops::RawMatrix raw{"model.x.weight", DType::kF32, bytes, 2, 3};
  for (const Status& s : {ops::pack_rows(raw, ops::WeightFormat::kF16, 0, target.data()), ops::store_rows(raw, ops::WeightFormat::kF16, target.data())}) {
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(s.error().message.find("model.x.weight"), std::string::npos);
    EXPECT_NE(s.error().message.find("[1, 1]"), std::string::npos);
    EXPECT_EQ(s.error().param, "--dtype");
  }
  EXPECT_TRUE(ops::pack_rows(raw, ops::WeightFormat::kBF16, 0, target.data()).ok());
  const auto huge = test::raw_bytes(Matrix(1, 1, {3.4e38}), DType::kF32);
  EXPECT_FALSE(ops::pack_rows({"w", DType::kF32, huge, 1, 1}, ops::WeightFormat::kBF16, 0, target.data()).ok());
  EXPECT_TRUE(ops::store_f32({"w", DType::kF32, huge, 1, 1}, reinterpret_cast<float*>(target.data())).ok());
}

TEST(PackDeath, BytesThatDoNotFitTheShape) {
  std::vector<std::byte> bytes(15), target(4096);
  EXPECT_DEATH((void)ops::pack_rows({"odd", DType::kF32, bytes, 2, 2}, ops::WeightFormat::kF32, 0, target.data()), "odd");
}

}  // namespace
}  // namespace quire
