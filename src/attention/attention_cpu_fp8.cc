// The CPU attention kernels over FP8 caches: the same code with other loads, in a file of its own because each type costs seconds to compile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/attention_cpu_fp8.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>

#include "attention/cpu_kernels.h"
#include "attention/unit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

void decode_e4m3(const void* p, std::int64_t b, std::int64_t e) { decode_units<Fp8E4m3>(p, b, e); }
void decode_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { decode_units<Fp8E4m3Fnuz>(p, b, e); }
void decode_e5m2(const void* p, std::int64_t b, std::int64_t e) { decode_units<Fp8E5m2>(p, b, e); }
void prefill_e4m3(const void* p, std::int64_t b, std::int64_t e) { attend_units<Fp8E4m3, Rows::kPrefill>(p, b, e); }
void prefill_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { attend_units<Fp8E4m3Fnuz, Rows::kPrefill>(p, b, e); }
void prefill_e5m2(const void* p, std::int64_t b, std::int64_t e) { attend_units<Fp8E5m2, Rows::kPrefill>(p, b, e); }
void unified_e4m3(const void* p, std::int64_t b, std::int64_t e) { attend_units<Fp8E4m3, Rows::kAny>(p, b, e); }
void unified_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { attend_units<Fp8E4m3Fnuz, Rows::kAny>(p, b, e); }
void unified_e5m2(const void* p, std::int64_t b, std::int64_t e) { attend_units<Fp8E5m2, Rows::kAny>(p, b, e); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::attention {
HWY_EXPORT(decode_e4m3);
HWY_EXPORT(decode_e4m3fnuz);
HWY_EXPORT(decode_e5m2);
HWY_EXPORT(prefill_e4m3);
HWY_EXPORT(prefill_e4m3fnuz);
HWY_EXPORT(prefill_e5m2);
HWY_EXPORT(unified_e4m3);
HWY_EXPORT(unified_e4m3fnuz);
HWY_EXPORT(unified_e5m2);
namespace {
void run_decode_e4m3(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_e4m3)(p, b, e); }
void run_decode_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_e4m3fnuz)(p, b, e); }
void run_decode_e5m2(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_e5m2)(p, b, e); }
void run_prefill_e4m3(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_e4m3)(p, b, e); }
void run_prefill_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_e4m3fnuz)(p, b, e); }
void run_prefill_e5m2(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_e5m2)(p, b, e); }
void run_unified_e4m3(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_e4m3)(p, b, e); }
void run_unified_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_e4m3fnuz)(p, b, e); }
void run_unified_e5m2(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_e5m2)(p, b, e); }
}  // namespace

std::span<const device::CpuKernel> cpu_fp8_kernels() {
  using device::KernelId;
  static constexpr std::array kKernels = {
      device::CpuKernel{KernelId::kAttnDecodeE4m3, run_decode_e4m3},
      device::CpuKernel{KernelId::kAttnDecodeE4m3Fnuz, run_decode_e4m3fnuz},
      device::CpuKernel{KernelId::kAttnDecodeE5m2, run_decode_e5m2},
      device::CpuKernel{KernelId::kAttnPrefillE4m3, run_prefill_e4m3},
      device::CpuKernel{KernelId::kAttnPrefillE4m3Fnuz, run_prefill_e4m3fnuz},
      device::CpuKernel{KernelId::kAttnPrefillE5m2, run_prefill_e5m2},
      device::CpuKernel{KernelId::kAttnUnifiedE4m3, run_unified_e4m3},
      device::CpuKernel{KernelId::kAttnUnifiedE4m3Fnuz, run_unified_e4m3fnuz},
      device::CpuKernel{KernelId::kAttnUnifiedE5m2, run_unified_e5m2},
  };
  return kKernels;
}

}  // namespace quire::attention
#endif
