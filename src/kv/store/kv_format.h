// How one cached element is stored. FNUZ and OCP FP8 are different types: the same bits mean half as much in FNUZ. Device-free.
#pragma once
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace quire::kv {

enum class KvFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kFp8E4m3,      // OCP e4m3fn: largest 448
  kFp8E4m3Fnuz,  // largest 240; gfx940 to gfx942 only
  kFp8E5m2,      // OCP e5m2: largest 57344
  kOther,        // a format that no row has (nvfp4, int8_per_token_head, ...); only questions hold it
};
inline constexpr KvFormat kKvFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kFp8E4m3, KvFormat::kFp8E4m3Fnuz, KvFormat::kFp8E5m2};

[[nodiscard]] constexpr const char* kv_format_name(KvFormat f) {
  switch (f) {
    case KvFormat::kF32: return "float32";
    case KvFormat::kF16: return "float16";
    case KvFormat::kBF16: return "bfloat16";
    case KvFormat::kFp8E4m3: return "fp8_e4m3 (OCP)";
    case KvFormat::kFp8E4m3Fnuz: return "fp8_e4m3 (FNUZ)";
    case KvFormat::kFp8E5m2: return "fp8_e5m2";
    case KvFormat::kOther: return "in a format of no row";
  }
  return "?";
}

[[nodiscard]] constexpr bool is_fp8(KvFormat f) { return f == KvFormat::kFp8E4m3 || f == KvFormat::kFp8E4m3Fnuz || f == KvFormat::kFp8E5m2; }

// The format of a cache of such elements; nullopt: no cache is made of these.
[[nodiscard]] constexpr std::optional<KvFormat> kv_format_of(DType t) {
  switch (t) {
    case DType::kFp8E4m3: return KvFormat::kFp8E4m3;
    case DType::kFp8E4m3Fnuz: return KvFormat::kFp8E4m3Fnuz;
    case DType::kFp8E5m2: return KvFormat::kFp8E5m2;
    case DType::kF32: return KvFormat::kF32;
    case DType::kF16: return KvFormat::kF16;
    case DType::kBF16: return KvFormat::kBF16;
    case DType::kI32: case DType::kI64: case DType::kU8: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace quire::kv
