// The 8-bit float storage types and their exact conversions. Three encodings, three types: the same bits mean different numbers in
// them, and nothing converts between them but a float.
//   e4m3fn, e5m2: "OCP 8-bit Floating Point Specification (OFP8)", revision 1.0, section 5.
//   e4m3fnuz: Noune et al. 2022, arXiv:2206.02915: exponent bias 8, no infinity, no negative zero; 0x80 is the only NaN.
// Scalar and bit-exact on every machine; kernels may convert otherwise only where tests prove it equal.
#pragma once
#include <bit>
#include <cstdint>

namespace quire {

struct Fp8E4m3 { std::uint8_t bits; };      // largest 448
struct Fp8E4m3Fnuz { std::uint8_t bits; };  // largest 240
struct Fp8E5m2 { std::uint8_t bits; };      // largest finite 57344

namespace fp8 {

struct Encoding {
  int fraction_bits;
  int bias;
  std::uint8_t largest;  // bits of the largest finite magnitude
  std::uint8_t nan;      // the NaN that conversion gives, without its sign
  bool unsigned_zero;    // FNUZ: zero and NaN have one encoding each
};
inline constexpr Encoding kE4m3{3, 7, 0x7e, 0x7f, false};
inline constexpr Encoding kE4m3Fnuz{3, 8, 0x7f, 0x80, true};
inline constexpr Encoding kE5m2{2, 15, 0x7b, 0x7e, false};

// To nearest, ties to even. Magnitudes past the largest finite one, infinity included, become that one; NaN stays NaN.
[[nodiscard]] constexpr std::uint8_t encode(const Encoding& e, float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(e.unsigned_zero ? e.nan : sign | e.nan);
  const int dropped = 23 - e.fraction_bits;
  const auto smallest_normal = static_cast<std::uint32_t>(127 + 1 - e.bias) << 23;
  std::uint32_t bits = 0;
  if (magnitude >= smallest_normal) {
    const std::uint32_t rounded = magnitude + (1u << (dropped - 1)) - 1u + (magnitude >> dropped & 1u);
    bits = (rounded - (static_cast<std::uint32_t>(127 - e.bias) << 23)) >> dropped;
    if (bits > e.largest) bits = e.largest;
  } else {
    // A power of two whose unit in the last place is one subnormal step: the addition rounds to whole steps.
    const auto aligner = static_cast<std::uint32_t>(127 + 1 - e.bias - e.fraction_bits + 23) << 23;
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(aligner)) - aligner;
  }
  if (bits == 0 && e.unsigned_zero) return 0;
  return static_cast<std::uint8_t>(sign | bits);
}

[[nodiscard]] constexpr float decode(const Encoding& e, std::uint8_t x) {
  const std::uint32_t magnitude = x & 0x7fu, sign = static_cast<std::uint32_t>(x & 0x80u) << 24;
  if (e.unsigned_zero ? x == e.nan : magnitude > e.largest) {
    const bool infinite = e.fraction_bits == 2 && magnitude == 0x7cu;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  // Exponent and fraction in place, then the difference of the biases as a factor: exact, subnormals included.
  const float factor = std::bit_cast<float>(static_cast<std::uint32_t>(127 + 127 - e.bias) << 23);
  const float value = std::bit_cast<float>(magnitude << (23 - e.fraction_bits)) * factor;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

}  // namespace fp8

[[nodiscard]] constexpr float to_float(Fp8E4m3 x) { return fp8::decode(fp8::kE4m3, x.bits); }
[[nodiscard]] constexpr float to_float(Fp8E4m3Fnuz x) { return fp8::decode(fp8::kE4m3Fnuz, x.bits); }
[[nodiscard]] constexpr float to_float(Fp8E5m2 x) { return fp8::decode(fp8::kE5m2, x.bits); }

template <class T>
[[nodiscard]] constexpr T to_fp8(float x) = delete;  // of one of the three types above
template <>
constexpr Fp8E4m3 to_fp8<Fp8E4m3>(float x) { return {fp8::encode(fp8::kE4m3, x)}; }
template <>
constexpr Fp8E4m3Fnuz to_fp8<Fp8E4m3Fnuz>(float x) { return {fp8::encode(fp8::kE4m3Fnuz, x)}; }
template <>
constexpr Fp8E5m2 to_fp8<Fp8E5m2>(float x) { return {fp8::encode(fp8::kE5m2, x)}; }

}  // namespace quire
