// Every kernel a device may implement, by operation. One list: names for messages, ids for launches. A device that
// lacks one refuses by this name.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace quire::device {

// clang-format off
// One kernel for each storage type of the KV cache, in the order of DType.
#define QUIRE_CACHE_KERNELS(X, id, name)                                                      \
  X(id##F32, name "_f32") X(id##F16, name "_f16") X(id##BF16, name "_bf16")                   \
  X(id##E4m3, name "_e4m3") X(id##E4m3Fnuz, name "_e4m3fnuz") X(id##E5m2, name "_e5m2")
#define QUIRE_KERNEL_LIST(X)                                                                  \
  X(GatherTokens, "gather_tokens")                                                            \
  X(EmbedF32, "embed_f32") X(EmbedF16, "embed_f16") X(EmbedBF16, "embed_bf16") X(EmbedCoded, "embed_coded") \
  X(RmsNorm, "rms_norm") X(AddRmsNorm, "add_rms_norm")                                        \
  X(LinearF32, "linear_f32") X(LinearF16, "linear_f16") X(LinearBF16, "linear_bf16")          \
  X(LinearE4m3, "linear_e4m3") X(LinearE4m3Fnuz, "linear_e4m3fnuz") X(LinearCoded, "linear_coded") X(Quantise, "quantise") \
  QUIRE_CACHE_KERNELS(X, RopeKvWrite, "qk_norm_rope_kv_write")                                \
  QUIRE_CACHE_KERNELS(X, AttnDecode, "attention_decode")                                      \
  X(AttnCombine, "attention_decode_combine")                                                  \
  QUIRE_CACHE_KERNELS(X, AttnPrefill, "attention_prefill")                                    \
  QUIRE_CACHE_KERNELS(X, AttnUnified, "attention_unified")                                    \
  X(SiluMul, "silu_mul") X(GeluTanhMul, "gelu_tanh_mul") X(SoftCap, "soft_cap") X(GatherRows, "gather_rows") X(Sample, "sample")
// clang-format on

enum class KernelId : std::uint16_t {
#define X(id, name) k##id,
  QUIRE_KERNEL_LIST(X)
#undef X
};

#define X(id, name) +1
inline constexpr std::size_t kNumKernels = 0 QUIRE_KERNEL_LIST(X);
#undef X

[[nodiscard]] constexpr const char* kernel_name(KernelId id) {
  switch (id) {
#define X(id, name) \
  case KernelId::k##id: return name;
    QUIRE_KERNEL_LIST(X)
#undef X
  }
  return "?";
}

// The kernel of a family for elements of `t`: ids of a family follow each other as the types do. `f32` is the family's first.
[[nodiscard]] constexpr KernelId for_storage(KernelId f32, DType t) {
  static_assert(static_cast<int>(DType::kF32) == 0 && static_cast<int>(DType::kBF16) == 2 && static_cast<int>(DType::kFp8E5m2) == 5);
  return static_cast<KernelId>(static_cast<int>(f32) + static_cast<int>(t));
}
static_assert(for_storage(KernelId::kLinearF32, DType::kBF16) == KernelId::kLinearBF16);
static_assert(for_storage(KernelId::kLinearF32, DType::kFp8E4m3Fnuz) == KernelId::kLinearE4m3Fnuz);
static_assert(for_storage(KernelId::kEmbedF32, DType::kBF16) == KernelId::kEmbedBF16);
static_assert(for_storage(KernelId::kAttnUnifiedF32, DType::kFp8E5m2) == KernelId::kAttnUnifiedE5m2);

}  // namespace quire::device
