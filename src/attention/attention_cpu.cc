// The CPU attention kernels over caches of floats: decode with its combine, prefill (and extend), unified.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/attention_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>

#include "attention/cpu_kernels.h"
#include "attention/params.h"
#include "attention/unit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

void combine(const void* params, std::int64_t begin, std::int64_t end) {
  for_units(params, begin, end, [](const attention::AttnParams& p, std::int64_t index, std::int32_t kv_head) HWY_ATTR { combine_unit(p, p.work[index], kv_head); });
}

void decode_f32(const void* p, std::int64_t b, std::int64_t e) { decode_units<float>(p, b, e); }
void decode_f16(const void* p, std::int64_t b, std::int64_t e) { decode_units<Float16>(p, b, e); }
void decode_bf16(const void* p, std::int64_t b, std::int64_t e) { decode_units<BFloat16>(p, b, e); }
void prefill_f32(const void* p, std::int64_t b, std::int64_t e) { attend_units<float, Rows::kPrefill>(p, b, e); }
void prefill_f16(const void* p, std::int64_t b, std::int64_t e) { attend_units<Float16, Rows::kPrefill>(p, b, e); }
void prefill_bf16(const void* p, std::int64_t b, std::int64_t e) { attend_units<BFloat16, Rows::kPrefill>(p, b, e); }
void unified_f32(const void* p, std::int64_t b, std::int64_t e) { attend_units<float, Rows::kAny>(p, b, e); }
void unified_f16(const void* p, std::int64_t b, std::int64_t e) { attend_units<Float16, Rows::kAny>(p, b, e); }
void unified_bf16(const void* p, std::int64_t b, std::int64_t e) { attend_units<BFloat16, Rows::kAny>(p, b, e); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::attention {
HWY_EXPORT(combine);
HWY_EXPORT(decode_f32);
HWY_EXPORT(decode_f16);
HWY_EXPORT(decode_bf16);
HWY_EXPORT(prefill_f32);
HWY_EXPORT(prefill_f16);
HWY_EXPORT(prefill_bf16);
HWY_EXPORT(unified_f32);
HWY_EXPORT(unified_f16);
HWY_EXPORT(unified_bf16);
namespace {
void run_combine(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(combine)(p, b, e); }
void run_decode_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_f32)(p, b, e); }
void run_decode_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_f16)(p, b, e); }
void run_decode_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_bf16)(p, b, e); }
void run_prefill_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_f32)(p, b, e); }
void run_prefill_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_f16)(p, b, e); }
void run_prefill_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_bf16)(p, b, e); }
void run_unified_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_f32)(p, b, e); }
void run_unified_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_f16)(p, b, e); }
void run_unified_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_bf16)(p, b, e); }
}  // namespace

std::span<const device::CpuKernel> cpu_float_kernels() {
  using device::KernelId;
  static constexpr std::array kKernels = {
      device::CpuKernel{KernelId::kAttnCombine, run_combine},
      device::CpuKernel{KernelId::kAttnDecodeF32, run_decode_f32},
      device::CpuKernel{KernelId::kAttnDecodeF16, run_decode_f16},
      device::CpuKernel{KernelId::kAttnDecodeBF16, run_decode_bf16},
      device::CpuKernel{KernelId::kAttnPrefillF32, run_prefill_f32},
      device::CpuKernel{KernelId::kAttnPrefillF16, run_prefill_f16},
      device::CpuKernel{KernelId::kAttnPrefillBF16, run_prefill_bf16},
      device::CpuKernel{KernelId::kAttnUnifiedF32, run_unified_f32},
      device::CpuKernel{KernelId::kAttnUnifiedF16, run_unified_f16},
      device::CpuKernel{KernelId::kAttnUnifiedBF16, run_unified_bf16},
  };
  return kKernels;
}

}  // namespace quire::attention
#endif
