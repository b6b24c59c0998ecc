#include "attention/device_family.h"

#include <array>

namespace quire::attention {
namespace {

using enum Platform;
constexpr auto kOcp = Fp8Encoding::kOcp;
constexpr auto kSoft = Fp8Hardware::kNone;
constexpr auto kHard = Fp8Hardware::kConversion;

constexpr std::array kFamilies = {
    DeviceFamily{"cpu", kCpu, 0, Fp8Encoding::kEither, kSoft, "x86-64, any instruction set"},
    DeviceFamily{"sm80", kCuda, 32, kOcp, kSoft, "NVIDIA A100"},
    DeviceFamily{"sm89", kCuda, 32, kOcp, kHard, "NVIDIA L4, L40, RTX 40"},
    DeviceFamily{"sm90", kCuda, 32, kOcp, kHard, "NVIDIA H100, H200"},
    DeviceFamily{"sm100", kCuda, 32, kOcp, kHard, "NVIDIA B200"},
    DeviceFamily{"gfx90a", kInstinct, 64, kOcp, kSoft, "AMD Instinct MI200"},
    DeviceFamily{"gfx942", kInstinct, 64, Fp8Encoding::kFnuz, kHard, "AMD Instinct MI300"},
    DeviceFamily{"gfx950", kInstinct, 64, kOcp, kHard, "AMD Instinct MI350"},
    DeviceFamily{"gfx1100", kRadeon, 32, kOcp, kSoft, "AMD Radeon RX 7900"},
    DeviceFamily{"gfx1101", kRadeon, 32, kOcp, kSoft, "AMD Radeon RX 7800, 7700"},
    DeviceFamily{"gfx1200", kRadeon, 32, kOcp, kHard, "AMD Radeon RX 9060"},
    DeviceFamily{"gfx1201", kRadeon, 32, kOcp, kHard, "AMD Radeon RX 9070"},
};

}  // namespace

std::span<const DeviceFamily> device_families() { return kFamilies; }

const DeviceFamily* find_device_family(std::string_view name) {
  for (const DeviceFamily& f : kFamilies)
    if (f.name == name) return &f;
  return nullptr;
}

const char* platform_name(Platform p) {
  switch (p) {
    case kCpu: return "CPU";
    case kCuda: return "CUDA";
    case kInstinct: return "ROCm Instinct";
    case kRadeon: return "ROCm Radeon";
  }
  return "?";
}

}  // namespace quire::attention
