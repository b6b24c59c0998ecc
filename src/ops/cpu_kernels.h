// The CPU kernels of this room and the list that a CpuDevice is built from.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "device/cpu/cpu_device.h"

namespace quire {

// A block of rows and the outputs that one panel slice gives them.
struct LinearSlice {
  const float* x;     // [rows, k]
  float* y;           // first row, first output
  const float* bias;  // of the first output, or nullptr
  std::int64_t k, ldy;
  std::int64_t columns;  // outputs left from the first one on
};

namespace ops {

void cpu_linear_f32(const void* params, std::int64_t begin, std::int64_t end);
void cpu_linear_f16(const void* params, std::int64_t begin, std::int64_t end);
void cpu_linear_bf16(const void* params, std::int64_t begin, std::int64_t end);
void cpu_linear_e4m3(const void* params, std::int64_t begin, std::int64_t end);
void cpu_linear_e4m3fnuz(const void* params, std::int64_t begin, std::int64_t end);
void cpu_linear_coded(const void* params, std::int64_t begin, std::int64_t end);
void cpu_quantise(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rms_norm(const void* params, std::int64_t begin, std::int64_t end);
void cpu_add_rms_norm(const void* params, std::int64_t begin, std::int64_t end);
void cpu_silu_mul(const void* params, std::int64_t begin, std::int64_t end);
void cpu_gelu_tanh_mul(const void* params, std::int64_t begin, std::int64_t end);
void cpu_soft_cap(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rope_kv_write_f32(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rope_kv_write_f16(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rope_kv_write_bf16(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rope_kv_write_e4m3(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rope_kv_write_e4m3fnuz(const void* params, std::int64_t begin, std::int64_t end);
void cpu_rope_kv_write_e5m2(const void* params, std::int64_t begin, std::int64_t end);
void cpu_gather_tokens(const void* params, std::int64_t begin, std::int64_t end);
void cpu_gather_rows(const void* params, std::int64_t begin, std::int64_t end);
void cpu_embed_f32(const void* params, std::int64_t begin, std::int64_t end);
void cpu_embed_f16(const void* params, std::int64_t begin, std::int64_t end);
void cpu_embed_bf16(const void* params, std::int64_t begin, std::int64_t end);
void cpu_embed_coded(const void* params, std::int64_t begin, std::int64_t end);
void cpu_sample(const void* params, std::int64_t begin, std::int64_t end);

[[nodiscard]] std::span<const device::CpuKernel> cpu_kernels();
// The instruction set that calls are dispatched to on this machine, e.g. "AVX3".
[[nodiscard]] std::string cpu_isa();
// Limits dispatch to an instruction set of this build ("SCALAR", "SSE4", "AVX2", "AVX3"); an error names those that this machine has.
// Process-wide; call before any kernel runs.
// Dot products of bytes in one instruction (AVX-512 VNNI) are part of no set in the list: they are used where the machine has them, unless
// a set was named here. They change no bit.
[[nodiscard]] Status limit_cpu_isa(const std::string& name);
[[nodiscard]] bool cpu_has_byte_dots();

}  // namespace ops
}  // namespace quire
