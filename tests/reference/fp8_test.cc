// The FP8 encodings: base/fp8.h, the reference's tables and a third implementation's goldens (tools/make_fp8_goldens.py) agree on every
// value and on the conversion of every 16-bit number.
#include "base/fp8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kit/seed.h"
#include "reference/fp8.h"
#include "reference/rounding.h"

namespace quire::reference {
namespace {

constexpr DType kEncodings[] = {DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2};

std::uint8_t base_encode(DType dtype, float x) {
  switch (dtype) {
    case DType::kFp8E4m3: return to_fp8<Fp8E4m3>(x).bits;
    case DType::kFp8E4m3Fnuz: return to_fp8<Fp8E4m3Fnuz>(x).bits;
    default: return to_fp8<Fp8E5m2>(x).bits;
  }
}

float base_decode(DType dtype, std::uint8_t bits) {
  switch (dtype) {
    case DType::kFp8E4m3: return to_float(Fp8E4m3{bits});
    case DType::kFp8E4m3Fnuz: return to_float(Fp8E4m3Fnuz{bits});
    default: return to_float(Fp8E5m2{bits});
  }
}

// The words of a golden line by its first two: "float8_e5m2 values".
std::vector<std::string> golden(const std::string& encoding, const std::string& kind) {
  std::ifstream file(std::string(QUIRE_SOURCE_DIR) + "/tests/reference/fp8_goldens.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first != encoding || second != kind) continue;
    std::vector<std::string> rest;
    for (std::string word; words >> word;) rest.push_back(word);
    return rest;
  }
  ADD_FAILURE() << "no golden for " << encoding << ' ' << kind;
  return {};
}

void expect_same_code(DType dtype, float x) {
  const std::uint8_t base = base_encode(dtype, x), ours = fp8_encode(dtype, static_cast<double>(x));
  if (std::isnan(x)) {
    EXPECT_TRUE(std::isnan(base_decode(dtype, base)) && std::isnan(fp8_values(dtype)[ours]));
    return;
  }
  ASSERT_EQ(base, ours) << dtype_name(dtype) << " of " << x;
}

TEST(Fp8, EveryValueAgreesWithTheTableAndTheGolden) {
  for (const DType dtype : kEncodings) {
    const auto words = golden(dtype_name(dtype), "values");
    ASSERT_EQ(words.size(), 256u);
    for (std::size_t bits = 0; bits < 256; ++bits) {
      const double table = fp8_values(dtype)[bits], base = static_cast<double>(base_decode(dtype, static_cast<std::uint8_t>(bits))), third = std::strtod(words[bits].c_str(), nullptr);
      ASSERT_EQ(std::isnan(table), std::isnan(third)) << bits;
      ASSERT_EQ(std::isnan(table), std::isnan(base)) << bits;
      if (std::isnan(table)) continue;
      ASSERT_EQ(table, third) << bits;
      ASSERT_EQ(table, base) << bits;
      ASSERT_EQ(std::signbit(table), std::signbit(base)) << bits;
      if (!std::isfinite(table)) continue;
      ASSERT_EQ(fp8_encode(dtype, table), bits) << dtype_name(dtype);
    }
  }
}

TEST(Fp8, EverySixteenBitNumberConvertsAsTheGoldenSays) {
  for (const DType dtype : kEncodings)
    for (const DType from : {DType::kF16, DType::kBF16}) {
      std::size_t at = 0;
      for (const std::string& run : golden(dtype_name(dtype), dtype_name(from))) {
        const std::size_t x = run.find('x');
        const auto count = static_cast<std::size_t>(std::stoul(run.substr(0, x)));
        const auto code = static_cast<std::uint8_t>(std::stoul(run.substr(x + 1), nullptr, 16));
        for (std::size_t i = 0; i < count; ++i, ++at) {
          const auto value = static_cast<float>(decode(from, static_cast<std::uint32_t>(at)));
          expect_same_code(dtype, value);
          if (std::isnan(value)) continue;
          ASSERT_EQ(base_encode(dtype, value), code) << dtype_name(dtype) << " of " << dtype_name(from) << " pattern " << at;
        }
      }
      EXPECT_EQ(at, 65536u);
    }
}

// Every value, the middle to its neighbour, and the floats just beside both; both signs.
TEST(Fp8, RoundsToNearestEvenAtEveryBorder) {
  for (const DType dtype : kEncodings) {
    const double largest = round_to(dtype, std::numeric_limits<double>::infinity());
    for (int bits = 0; bits < 0x7f; ++bits) {
      const double here = fp8_values(dtype)[static_cast<std::size_t>(bits)], next = fp8_values(dtype)[static_cast<std::size_t>(bits + 1)];
      if (!std::isfinite(here)) continue;
      const double middle = std::isfinite(next) ? (here + next) / 2 : largest * (1 + std::ldexp(1.0, -5));
      for (const auto x : {static_cast<float>(here), static_cast<float>(middle)})
        for (const float near : {std::nextafter(x, -1.0f), x, std::nextafter(x, std::numeric_limits<float>::infinity())}) {
          expect_same_code(dtype, near);
          expect_same_code(dtype, -near);
        }
    }
  }
}

TEST(Fp8, AgreesOnRandomFloatBitPatterns) {
  auto rng = test::seeded_rng();
  for (int i = 0; i < 100'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    for (const DType dtype : kEncodings) expect_same_code(dtype, x);
  }
}

TEST(Fp8, SaturatesAndKeepsNaN) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::map<DType, float> largest = {{DType::kFp8E4m3, 448.0f}, {DType::kFp8E4m3Fnuz, 240.0f}, {DType::kFp8E5m2, 57344.0f}};
  for (const auto& [dtype, most] : largest) {
    for (const float x : {most, std::nextafter(most, inf), 2 * most, 3e38f, inf}) {
      EXPECT_EQ(base_decode(dtype, base_encode(dtype, x)), most) << dtype_name(dtype) << " of " << x;
      EXPECT_EQ(base_decode(dtype, base_encode(dtype, -x)), -most) << dtype_name(dtype) << " of " << -x;
    }
    for (const float x : {nan, -nan}) EXPECT_TRUE(std::isnan(base_decode(dtype, base_encode(dtype, x)))) << dtype_name(dtype);
  }
  EXPECT_EQ(base_encode(DType::kFp8E4m3Fnuz, -0.0f), 0) << "FNUZ has one zero";
  EXPECT_EQ(base_encode(DType::kFp8E4m3Fnuz, -1e-9f), 0);
  EXPECT_EQ(base_encode(DType::kFp8E4m3, -1e-9f), 0x80);
}

}  // namespace
}  // namespace quire::reference
