// The list of this room's CPU kernels, for building a CpuDevice.
#pragma once
#include <span>

#include "device/cpu/cpu_device.h"

namespace quire::attention {

[[nodiscard]] std::span<const device::CpuKernel> cpu_kernels();

// Its two parts, each beside its kernels.
[[nodiscard]] std::span<const device::CpuKernel> cpu_float_kernels();  // caches of 16 and 32-bit floats, and combine
[[nodiscard]] std::span<const device::CpuKernel> cpu_fp8_kernels();

}  // namespace quire::attention
