// Arithmetic of the sampler that must be the same on every device: no library functions, no fused operations, no order of float additions
// that a device could choose. Plain C++ with contraction off; a GPU port repeats these lines.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

namespace quire::ops {

// e^x for x <= 0 as a fixed-point weight: round(e^x * 2^44), 0 below about -30.5. Adding weights is exact, so their sum does not depend on
// order; a vocabulary of 2^18 tokens stays below 2^63.
inline constexpr int kWeightBits = 44;

// Without a branch, a conversion or a division, so that a loop over a vocabulary becomes vectors. A whole number below 2^51 added to 1.5 * 2^52, or to
// 2^52 if it is not negative, lies in the lowest bits of the sum, which rounds to nearest.
[[nodiscard]] inline std::uint64_t exp_weight(double x) {
  constexpr double kAny = 0x1.8p52, kPositive = 0x1p52;
  constexpr double kInverse[] = {1.0, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
  // x = k ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor series to the 13th power: error below 2^-51.
  const double shifted = x * 1.4426950408889634 + kAny, k = shifted - kAny;
  const double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
  double e = 1.0;
  for (int n = 12; n >= 0; --n) e = 1.0 + e * r * kInverse[n];
  const double value = e * std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023 + kWeightBits) << 52);
  const std::uint64_t weight = std::bit_cast<std::uint64_t>(value + kPositive) - std::bit_cast<std::uint64_t>(kPositive);
  return x > -31.0 ? weight : 0;  // NaN: 0
}

// ln of a positive integer weight sum over 2^44. Exponent by counting bits; ln of the significand in [sqrt(1/2), sqrt(2)) by the series of
// 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172: 11 terms leave an error below 2^-56.
[[nodiscard]] inline double log_weight(std::uint64_t w) {
  int exponent = 63 - std::countl_zero(w);
  double m = static_cast<double>(w) * std::bit_cast<double>(static_cast<std::uint64_t>(1023 - exponent) << 52);
  if (m >= 1.4142135623730951) {
    m = m * 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 0.0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * s2 + 1.0 / n;
  return 2.0 * s * sum + (exponent - kWeightBits) * 0.6931471805599453;
}

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011).
[[nodiscard]] inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// 64 uniform bits for the output with this index of a request with this seed.
[[nodiscard]] inline std::uint64_t uniform_bits(std::uint64_t seed, std::uint32_t output_index) {
  const auto r = philox4x32({output_index, 0, 0, 0}, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return (std::uint64_t{r[0]} << 32) | r[1];
}

// floor(a * b / 2^64): maps 64 uniform bits to [0, b).
[[nodiscard]] inline std::uint64_t scale_to(std::uint64_t bits, std::uint64_t b) { return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * b) >> 64); }

}  // namespace quire::ops
