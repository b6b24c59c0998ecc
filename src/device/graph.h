// A recorded sequence of launches. Holds exactly what a launch is (kernel id, geometry, parameter bytes): no captured host state, so
// that recording on the CPU hides nothing that a GPU graph would trip over.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/kernel_id.h"

namespace quire::device {

inline constexpr std::size_t kMaxParamBytes = 256;

// How much work a launch is. `units` are independent and may run in any order on any core; `unit_work` is a rough count of
// multiply-adds in one, and only decides how units are spread (never what is computed).
struct Geometry {
  std::int64_t units = 1;
  std::int64_t unit_work = 1;
};

struct Launch {
  KernelId id{};
  Geometry geometry;
  std::uint32_t params_bytes = 0;
  alignas(16) std::array<std::byte, kMaxParamBytes> params{};
};

struct Graph {
  std::vector<Launch> launches;
};

}  // namespace quire::device
