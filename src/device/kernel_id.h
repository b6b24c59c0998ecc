// Every kernel a device may implement, by operation. One list: names for messages, ids for launches. A device that
// lacks one refuses by this name.
#pragma once
#include <cstddef>
#include <cstdint>

namespace quire::device {

// clang-format off
#define QUIRE_KERNEL_LIST(X)                                                                  \
  X(GatherTokens, "gather_tokens")                                                            \
  X(EmbedF32, "embed_f32") X(EmbedF16, "embed_f16") X(EmbedBF16, "embed_bf16")                \
  X(RmsNorm, "rms_norm") X(AddRmsNorm, "add_rms_norm")                                        \
  X(LinearF32, "linear_f32") X(LinearF16, "linear_f16") X(LinearBF16, "linear_bf16")          \
  X(RopeKvWriteF32, "qk_norm_rope_kv_write_f32") X(RopeKvWriteF16, "qk_norm_rope_kv_write_f16") \
  X(RopeKvWriteBF16, "qk_norm_rope_kv_write_bf16")                                            \
  X(AttnDecodeF32, "attention_decode_f32") X(AttnDecodeF16, "attention_decode_f16")           \
  X(AttnDecodeBF16, "attention_decode_bf16") X(AttnCombine, "attention_decode_combine")       \
  X(AttnPrefillF32, "attention_prefill_f32") X(AttnPrefillF16, "attention_prefill_f16")       \
  X(AttnPrefillBF16, "attention_prefill_bf16")                                                \
  X(AttnUnifiedF32, "attention_unified_f32") X(AttnUnifiedF16, "attention_unified_f16")       \
  X(AttnUnifiedBF16, "attention_unified_bf16")                                                \
  X(SiluMul, "silu_mul") X(GatherRows, "gather_rows") X(Sample, "sample")
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

}  // namespace quire::device
