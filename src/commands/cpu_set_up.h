// The program's CPU device: its kernels of every room, and the instruction set that they are limited to.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "device/cpu/cpu_device.h"

namespace quire::commands {

[[nodiscard]] std::vector<device::CpuKernel> all_cpu_kernels();
// QUIRE_CPU_ISA: "auto", or the widest set that kernels may use. Before any kernel runs.
[[nodiscard]] Status limit_isa(const std::string& cpu_isa);

}  // namespace quire::commands
