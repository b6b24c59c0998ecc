#include "base/dtype.h"


namespace quire {

const char* dtype_name(DType t) {
  switch (t) {
    case DType::kF32: return "float32";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
    case DType::kFp8E4m3: return "float8_e4m3fn";
    case DType::kFp8E4m3Fnuz: return "float8_e4m3fnuz";
    case DType::kFp8E5m2: return "float8_e5m2";
    case DType::kI32: return "int32";
    case DType::kI64: return "int64";
    case DType::kU8: return "uint8";
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType t : kDTypes)
    if (name == dtype_name(t)) return t;
  if (name == "float") return DType::kF32;
  if (name == "half") return DType::kF16;
  return std::nullopt;
}

float to_float(Float16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero
  return sign != 0 ? -magnitude : magnitude;
}

Float16 to_float16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return Float16{static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return Float16{static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 and above
  if (magnitude >= 0x38800000u) {  // normal in binary16
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return Float16{static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
  }
  // Subnormal: adding 0.5 aligns the 24-bit significand so that its last ten bits are the result, rounded by the FPU.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
  return Float16{static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u))};
}

}  // namespace quire
