// The list of this room's CPU kernels, for building a CpuDevice.
#pragma once
#include <span>

#include "device/cpu/cpu_device.h"

namespace quire::attention {

[[nodiscard]] std::span<const device::CpuKernel> cpu_kernels();

}  // namespace quire::attention
