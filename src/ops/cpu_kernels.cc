#include "ops/cpu_kernels.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <array>
#include <atomic>

namespace quire::ops {

std::span<const device::CpuKernel> cpu_kernels() {
  using device::KernelId;
  static constexpr std::array kKernels = {
      device::CpuKernel{KernelId::kGatherTokens, cpu_gather_tokens},
      device::CpuKernel{KernelId::kGatherRows, cpu_gather_rows},
      device::CpuKernel{KernelId::kEmbedF32, cpu_embed_f32},
      device::CpuKernel{KernelId::kEmbedF16, cpu_embed_f16},
      device::CpuKernel{KernelId::kEmbedBF16, cpu_embed_bf16},
      device::CpuKernel{KernelId::kEmbedCoded, cpu_embed_coded},
      device::CpuKernel{KernelId::kRmsNorm, cpu_rms_norm},
      device::CpuKernel{KernelId::kAddRmsNorm, cpu_add_rms_norm},
      device::CpuKernel{KernelId::kLinearF32, cpu_linear_f32},
      device::CpuKernel{KernelId::kLinearF16, cpu_linear_f16},
      device::CpuKernel{KernelId::kLinearBF16, cpu_linear_bf16},
      device::CpuKernel{KernelId::kLinearE4m3, cpu_linear_e4m3},
      device::CpuKernel{KernelId::kLinearE4m3Fnuz, cpu_linear_e4m3fnuz},
      device::CpuKernel{KernelId::kLinearCoded, cpu_linear_coded},
      device::CpuKernel{KernelId::kQuantise, cpu_quantise},
      device::CpuKernel{KernelId::kRopeKvWriteF32, cpu_rope_kv_write_f32},
      device::CpuKernel{KernelId::kRopeKvWriteF16, cpu_rope_kv_write_f16},
      device::CpuKernel{KernelId::kRopeKvWriteBF16, cpu_rope_kv_write_bf16},
      device::CpuKernel{KernelId::kRopeKvWriteE4m3, cpu_rope_kv_write_e4m3},
      device::CpuKernel{KernelId::kRopeKvWriteE4m3Fnuz, cpu_rope_kv_write_e4m3fnuz},
      device::CpuKernel{KernelId::kRopeKvWriteE5m2, cpu_rope_kv_write_e5m2},
      device::CpuKernel{KernelId::kSiluMul, cpu_silu_mul},
      device::CpuKernel{KernelId::kGeluTanhMul, cpu_gelu_tanh_mul},
      device::CpuKernel{KernelId::kSoftCap, cpu_soft_cap},
      device::CpuKernel{KernelId::kSample, cpu_sample},
  };
  return kKernels;
}

namespace {

std::atomic<bool> limited = false;  // to a named set

// Instruction sets of this build that calls may be dispatched to, best in the lowest bit. Highway's SupportedTargets() also points its
// dispatch at everything the machine has, whatever was disabled before; Update() puts the limit back.
std::int64_t dispatched_targets() {
  const std::int64_t targets = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(targets);
  return targets & HWY_TARGETS;
}

}  // namespace

std::string cpu_isa() {
  const std::int64_t supported = dispatched_targets();
  return hwy::TargetName(supported & -supported);  // lower bits are better targets
}

Status limit_cpu_isa(const std::string& name) {
  std::string have;
  for (std::int64_t left = dispatched_targets(); left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    if (name == hwy::TargetName(target)) {
      limited = true;
      hwy::DisableTargets(target - 1);
      (void)dispatched_targets();
      return {};
    }
    have += (have.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
  }
  return invalid("instruction set '" + name + "' is not one of this machine's: " + have, "QUIRE_CPU_ISA");
}

bool cpu_has_byte_dots() {
#if HWY_ARCH_X86
  static const bool has = __builtin_cpu_supports("avx512vnni") != 0;
  return has && !limited.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

}  // namespace quire::ops
