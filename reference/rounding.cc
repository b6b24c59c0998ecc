#include "reference/rounding.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "reference/fp8.h"

namespace quire::reference {
namespace {

// A binary interchange format: value = significand * 2^(exponent - fraction_bits).
struct Format {
  int fraction_bits;  // stored significand bits
  int exponent_bits;
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int min_exponent() const { return 1 - bias(); }
  [[nodiscard]] double largest() const { return std::ldexp(2.0 - std::ldexp(1.0, -fraction_bits), bias()); }
};

Format format_of(DType dtype) {
  QUIRE_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) << dtype_name(dtype);
  if (dtype == DType::kF32) return {23, 8};
  if (dtype == DType::kF16) return {10, 5};
  return {7, 8};
}

// The exponent of the binade that `magnitude` (finite, positive) falls in; subnormals share the smallest one.
int binade(const Format& f, double magnitude) {
  int exponent = 0;
  (void)std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent with m in [0.5, 1)
  return exponent - 1 < f.min_exponent() ? f.min_exponent() : exponent - 1;
}

double half_even(double q) {
  const double below = std::floor(q);
  const double rest = q - below;  // exact: q < 2^53
  if (rest < 0.5) return below;
  if (rest > 0.5) return below + 1.0;
  return std::fmod(below, 2.0) == 0.0 ? below : below + 1.0;
}

double round_magnitude(const Format& f, double magnitude) {
  const int scale = binade(f, magnitude) - f.fraction_bits;  // exponent of one unit in the last place
  const double units = half_even(std::ldexp(magnitude, -scale));
  const double rounded = std::ldexp(units, scale);
  return rounded > f.largest() ? std::numeric_limits<double>::infinity() : rounded;
}

}  // namespace

double round_to(DType dtype, double x) {
  if (is_fp8(dtype)) return fp8_values(dtype)[fp8_encode(dtype, x)];
  const Format f = format_of(dtype);
  if (std::isnan(x) || std::isinf(x) || x == 0.0) return x;
  return std::copysign(round_magnitude(f, std::fabs(x)), x);
}

std::uint32_t encode(DType dtype, double x) {
  if (is_fp8(dtype)) return fp8_encode(dtype, x);
  const Format f = format_of(dtype);
  const std::uint32_t all_ones_exponent = ((1u << f.exponent_bits) - 1u) << f.fraction_bits;
  if (std::isnan(x)) return all_ones_exponent | (1u << (f.fraction_bits - 1));
  const double rounded = round_to(dtype, x);
  const std::uint32_t sign = std::signbit(rounded) ? 1u << (f.exponent_bits + f.fraction_bits) : 0u;
  const double magnitude = std::fabs(rounded);
  if (std::isinf(magnitude)) return sign | all_ones_exponent;
  if (magnitude == 0.0) return sign;
  const int exponent = binade(f, magnitude);
  const auto units = static_cast<std::uint32_t>(std::ldexp(magnitude, f.fraction_bits - exponent));
  const std::uint32_t hidden = 1u << f.fraction_bits;
  if (units < hidden) return sign | units;  // subnormal: exponent field 0
  return sign | (static_cast<std::uint32_t>(exponent + f.bias()) << f.fraction_bits) | (units - hidden);
}

double decode(DType dtype, std::uint32_t bits) {
  if (is_fp8(dtype)) return fp8_values(dtype)[bits & 0xffu];
  const Format f = format_of(dtype);
  const std::uint32_t hidden = 1u << f.fraction_bits;
  const std::uint32_t fraction = bits & (hidden - 1u);
  const std::uint32_t exponent = (bits >> f.fraction_bits) & ((1u << f.exponent_bits) - 1u);
  const bool negative = ((bits >> (f.exponent_bits + f.fraction_bits)) & 1u) != 0;
  double magnitude = 0.0;
  if (exponent == (1u << f.exponent_bits) - 1u)
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<double>(fraction), f.min_exponent() - f.fraction_bits);
  else
    magnitude = std::ldexp(static_cast<double>(hidden + fraction), static_cast<int>(exponent) - f.bias() - f.fraction_bits);
  return negative ? -magnitude : magnitude;
}

}  // namespace quire::reference
