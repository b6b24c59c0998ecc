// Element types and the exact conversions between them. Scalar and bit-exact on every machine: kernels may use
// hardware conversions only where they are proven equal to these (tests/ops).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// kFp8...: base/fp8.h.
enum class DType : std::uint8_t { kF32, kF16, kBF16, kFp8E4m3, kFp8E4m3Fnuz, kFp8E5m2, kI32, kI64, kU8 };
inline constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2, DType::kI32, DType::kI64, DType::kU8};

[[nodiscard]] constexpr bool is_fp8(DType t) { return t == DType::kFp8E4m3 || t == DType::kFp8E4m3Fnuz || t == DType::kFp8E5m2; }

[[nodiscard]] constexpr std::size_t dtype_bytes(DType t) {
  switch (t) {
    case DType::kF32: case DType::kI32: return 4;
    case DType::kF16: case DType::kBF16: return 2;
    case DType::kI64: return 8;
    case DType::kU8: case DType::kFp8E4m3: case DType::kFp8E4m3Fnuz: case DType::kFp8E5m2: return 1;
  }
  return 0;
}

// "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "int32", "int64", "uint8".
[[nodiscard]] const char* dtype_name(DType t);
// Accepts dtype_name() and vLLM's aliases "float", "half". Nothing else.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);

// Storage-only 16-bit types; arithmetic happens in float.
struct BFloat16 { std::uint16_t bits; };
struct Float16 { std::uint16_t bits; };

[[nodiscard]] constexpr float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

// Round to nearest even; NaN stays NaN (quieted).
[[nodiscard]] constexpr BFloat16 to_bfloat16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return BFloat16{static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return BFloat16{static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

[[nodiscard]] float to_float(Float16 x);
// Round to nearest even; magnitudes of 65520 and above become infinity, as IEEE 754 binary16 says.
[[nodiscard]] Float16 to_float16(float x);

}  // namespace quire
