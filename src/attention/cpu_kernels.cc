#include "attention/cpu_kernels.h"

#include <vector>

namespace quire::attention {

std::span<const device::CpuKernel> cpu_kernels() {
  static const std::vector<device::CpuKernel> all = [] {
    std::vector<device::CpuKernel> list(cpu_float_kernels().begin(), cpu_float_kernels().end());
    list.insert(list.end(), cpu_fp8_kernels().begin(), cpu_fp8_kernels().end());
    return list;
  }();
  return all;
}

}  // namespace quire::attention
