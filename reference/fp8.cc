#include "reference/fp8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire::reference {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// sign * 2^(exponent - bias) * 1.fraction, or subnormal; before the special patterns.
double plain_value(int bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7f) >> fraction_bits;
  const double fraction = static_cast<double>(bits & ((1 << fraction_bits) - 1)) / static_cast<double>(1 << fraction_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

std::array<double, 256> e4m3_values() {
  std::array<double, 256> table{};
  for (int bits = 0; bits < 256; ++bits) table[static_cast<std::size_t>(bits)] = (bits & 0x7f) == 0x7f ? kNaN : plain_value(bits, 3, 7);
  return table;
}

std::array<double, 256> e4m3_fnuz_values() {
  std::array<double, 256> table{};
  for (int bits = 0; bits < 256; ++bits) table[static_cast<std::size_t>(bits)] = bits == 0x80 ? kNaN : plain_value(bits, 3, 8);
  return table;
}

std::array<double, 256> e5m2_values() {
  std::array<double, 256> table{};
  for (int bits = 0; bits < 256; ++bits) {
    double value = plain_value(bits, 2, 15);
    if ((bits & 0x7f) == 0x7c) value = std::copysign(std::numeric_limits<double>::infinity(), value);
    if ((bits & 0x7f) > 0x7c) value = kNaN;
    table[static_cast<std::size_t>(bits)] = value;
  }
  return table;
}

}  // namespace

const std::array<double, 256>& fp8_values(DType dtype) {
  static const std::array<double, 256> e4m3 = e4m3_values(), e4m3_fnuz = e4m3_fnuz_values(), e5m2 = e5m2_values();
  QUIRE_CHECK(is_fp8(dtype)) << dtype_name(dtype);
  return dtype == DType::kFp8E4m3 ? e4m3 : dtype == DType::kFp8E4m3Fnuz ? e4m3_fnuz : e5m2;
}

std::uint8_t fp8_encode(DType dtype, double x) {
  const std::array<double, 256>& values = fp8_values(dtype);
  if (std::isnan(x)) return dtype == DType::kFp8E4m3Fnuz ? 0x80 : 0x7f;
  std::size_t best = 0;
  double distance = std::numeric_limits<double>::infinity(), largest = 0.0;
  for (const double v : values)
    if (std::isfinite(v)) largest = std::max(largest, v);
  x = std::clamp(x, -largest, largest);  // far from all values, distances would round to the same
  for (std::size_t bits = 0; bits < 256; ++bits) {
    const double v = values[bits];
    if (!std::isfinite(v) || std::signbit(v) != std::signbit(x)) continue;
    const double d = std::fabs(v - x);
    if (d < distance || (d == distance && bits % 2 == 0)) best = bits, distance = d;
  }
  // FNUZ has no -0: what is nearest to it is 0.
  const bool to_zero = std::fabs(x) <= std::fabs(values[best]) / 2.0;
  return static_cast<std::uint8_t>(dtype == DType::kFp8E4m3Fnuz && to_zero ? 0 : best);
}

}  // namespace quire::reference
