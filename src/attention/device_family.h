// The devices that the program knows of, present or not: one table of plain facts. Selection and `quire explain` read it; knows no driver.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "kv/store/kv_format.h"

namespace quire::attention {

enum class Platform : std::uint8_t { kCpu, kCuda, kInstinct, kRadeon };
[[nodiscard]] const char* platform_name(Platform p);  // "CPU", "CUDA", "ROCm Instinct", "ROCm Radeon"
[[nodiscard]] constexpr bool is_rocm(Platform p) { return p == Platform::kInstinct || p == Platform::kRadeon; }

enum class Fp8Encoding : std::uint8_t {
  kOcp,
  kFnuz,
  kEither,  // conversion is ordinary code: OCP, unless FNUZ is asked for
};
enum class Fp8Hardware : std::uint8_t { kNone, kConversion };  // kNone: stored FP8 is converted by ordinary instructions

struct DeviceFamily {
  std::string_view name;     // what --device takes and DeviceProfile::family holds
  Platform platform;
  std::int32_t wave_width;   // lanes of a warp or wave; 0: does not apply
  Fp8Encoding fp8;           // of e4m3 bytes in a KV cache
  Fp8Hardware fp8_hardware;
  std::string_view summary;

  // What "fp8" and "fp8_e4m3" mean here.
  [[nodiscard]] constexpr kv::KvFormat e4m3() const { return fp8 == Fp8Encoding::kFnuz ? kv::KvFormat::kFp8E4m3Fnuz : kv::KvFormat::kFp8E4m3; }
  // False: the other encoding of e4m3.
  [[nodiscard]] constexpr bool stores(kv::KvFormat f) const {
    if (f == kv::KvFormat::kFp8E4m3) return fp8 != Fp8Encoding::kFnuz;
    return f != kv::KvFormat::kFp8E4m3Fnuz || fp8 != Fp8Encoding::kOcp;
  }
};

inline constexpr std::string_view kServedFamily = "cpu";  // what this program runs models on
[[nodiscard]] std::span<const DeviceFamily> device_families();
[[nodiscard]] const DeviceFamily* find_device_family(std::string_view name);  // nullptr: unknown

}  // namespace quire::attention
