// Our two ways of rounding, written from different definitions, agree on every 16-bit value and at every border between two.
#include "reference/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kit/seed.h"

namespace quire::reference {
namespace {

std::uint16_t base_bits(DType dtype, float x) { return dtype == DType::kBF16 ? to_bfloat16(x).bits : to_float16(x).bits; }

double base_value(DType dtype, std::uint16_t bits) {
  return dtype == DType::kBF16 ? static_cast<double>(to_float(BFloat16{bits})) : static_cast<double>(to_float(Float16{bits}));
}

void expect_same_rounding(DType dtype, float x) {
  const std::uint16_t base = base_bits(dtype, x);
  if (std::isnan(x)) {
    EXPECT_TRUE(std::isnan(base_value(dtype, base)));
    EXPECT_TRUE(std::isnan(decode(dtype, encode(dtype, x))));
    return;
  }
  ASSERT_EQ(encode(dtype, x), base) << dtype_name(dtype) << " of " << x;
}

TEST(Rounding, DecodesEverySixteenBitValueAsBaseDoes) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const double ours = decode(dtype, bits), base = base_value(dtype, static_cast<std::uint16_t>(bits));
      ASSERT_EQ(std::isnan(ours), std::isnan(base)) << bits;
      if (std::isnan(ours)) continue;
      ASSERT_EQ(ours, base) << bits;
      ASSERT_EQ(std::signbit(ours), std::signbit(base)) << bits;
      ASSERT_EQ(encode(dtype, ours), bits);
    }
  }
}

// Every value, the middle to its neighbour, and the floats just beside both.
TEST(Rounding, AgreesWithBaseAtEveryBorder) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto largest = static_cast<std::uint32_t>(dtype == DType::kBF16 ? 0x7f80 : 0x7c00);
    for (std::uint32_t bits = 0; bits < largest; ++bits) {
      const double here = decode(dtype, bits), next = bits + 1 == largest ? here + (here - decode(dtype, bits - 1)) : decode(dtype, bits + 1);
      const auto value = static_cast<float>(here), middle = static_cast<float>((here + next) / 2);
      for (const float x : {value, middle})
        for (const float near : {std::nextafter(x, -1.0f), x, std::nextafter(x, std::numeric_limits<float>::infinity())}) {
          expect_same_rounding(dtype, near);
          expect_same_rounding(dtype, -near);
        }
    }
  }
}

TEST(Rounding, AgreesWithBaseOnRandomFloatBitPatterns) {
  auto rng = test::seeded_rng();
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    expect_same_rounding(DType::kBF16, x);
    expect_same_rounding(DType::kF16, x);
    if (std::isnan(x)) continue;
    ASSERT_EQ(encode(DType::kF32, x), std::bit_cast<std::uint32_t>(x));
  }
}

// The compiler's own double -> float conversion is a third opinion.
TEST(Rounding, FloatRoundingOfDoublesIsTheMachines) {
  auto rng = test::seeded_rng();
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = std::ldexp(static_cast<double>(rng()), static_cast<int>(rng() % 320) - 64 - 170);
    ASSERT_EQ(round_to(DType::kF32, x), static_cast<double>(static_cast<float>(x))) << x;
  }
}

TEST(Rounding, HandComputed) {
  EXPECT_EQ(round_to(DType::kF16, 65519.99), 65504.0);
  EXPECT_EQ(round_to(DType::kF16, 65520.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_to(DType::kF16, -65520.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_to(DType::kF16, 2049.0), 2048.0);  // tie, even below
  EXPECT_EQ(round_to(DType::kF16, 2051.0), 2052.0);  // tie, even above
  EXPECT_EQ(round_to(DType::kF16, 0x1p-25), 0.0);    // tie between 0 and the smallest subnormal
  EXPECT_EQ(round_to(DType::kF16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(round_to(DType::kBF16, 1.0 + 0x1p-8), 1.0);
  // Once from float64: through float32 first this would become a tie and round down.
  EXPECT_EQ(round_to(DType::kBF16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
  EXPECT_TRUE(std::signbit(round_to(DType::kBF16, -0.0)));
  EXPECT_TRUE(std::signbit(round_to(DType::kF16, -1e-30)));
}

}  // namespace
}  // namespace quire::reference
