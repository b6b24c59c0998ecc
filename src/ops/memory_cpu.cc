// Gathers, embedding and the rope + cache write on the CPU: one token a unit. Bound by memory, so portable C++ is enough; products and
// sums are separate roundings (no contraction), the same on every instruction set.
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/fp8.h"
#include "kv/store/kv_layout.h"
#include "ops/coded.h"
#include "ops/cpu_kernels.h"
#include "ops/params.h"

namespace quire::ops {
namespace {

inline float as_float(float x) { return x; }
inline float as_float(BFloat16 x) { return to_float(x); }
inline float as_float(Float16 x) { return to_float(x); }
inline void round_to(float x, float& out) { out = x; }
inline void round_to(float x, BFloat16& out) { out = to_bfloat16(x); }
inline void round_to(float x, Float16& out) { out = to_float16(x); }
template <class T>
inline void round_to(float x, T& out) { out = to_fp8<T>(x); }

template <class T>
inline constexpr bool kScaled = sizeof(T) == 1;  // FP8 elements are stored divided by their head's scale

template <class T>
void embed_rows(const EmbedParams& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t id = p.token_ids[t];
    QUIRE_CHECK(id >= 0 && id < p.vocab) << "token id " << id;
    const T* row = static_cast<const T*>(p.table) + id / p.panel * p.hidden * p.panel + id % p.panel;
    float* out = p.out + t * p.hidden;
    for (std::int64_t i = 0; i < p.hidden; ++i) out[i] = as_float(row[i * p.panel]) * p.scale;
  }
}

void embed_coded_rows(const EmbedParams& p, std::int64_t begin, std::int64_t end) {
  const CodedLayout& layout = coded_layout(p.format);
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t id = p.token_ids[t];
    QUIRE_CHECK(id >= 0 && id < p.vocab) << "token id " << id;
    float* out = p.out + t * p.hidden;
    for (std::int64_t g = 0; g < p.hidden / layout.group; ++g) {
      const CodedGroup group = coded_group(layout, p.hidden, p.table, id, g);
      for (std::int64_t i = 0; i < layout.group; ++i) *out++ = group.value(i);
    }
  }
}

// x[0, head_dim) times weight over its root mean square, in place.
void head_norm(float* x, const float* weight, std::int32_t head_dim, float eps) {
  float sum = 0.0f;
  for (std::int32_t i = 0; i < head_dim; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / std::sqrt(sum / static_cast<float>(head_dim) + eps);
  for (std::int32_t i = 0; i < head_dim; ++i) x[i] = x[i] * scale * weight[i];
}

// Rotates the pairs (i, i + head_dim / 2) of one head: in -> out.
void rotate(const float* in, const float* cos_sin, std::int32_t head_dim, float* out) {
  const std::int32_t half = head_dim / 2;
  const float *cos = cos_sin, *sin = cos_sin + half;
  for (std::int32_t i = 0; i < half; ++i) {
    const float a = in[i], b = in[i + half];
    out[i] = a * cos[i] - b * sin[i];
    out[i + half] = b * cos[i] + a * sin[i];
  }
}

constexpr std::int32_t kMaxHeadDim = 256;
using kv::kCellTokens;

// One head through the optional norm and the rotation.
void normed_rotation(const float* in, const float* norm, const RopeKvWriteParams& p, const float* cos_sin, float* out) {
  if (norm == nullptr) return rotate(in, cos_sin, p.head_dim, out);
  float scratch[kMaxHeadDim];
  std::memcpy(scratch, in, sizeof(float) * static_cast<std::size_t>(p.head_dim));
  head_norm(scratch, norm, p.head_dim, p.norm_eps);
  rotate(scratch, cos_sin, p.head_dim, out);
}

template <class T>
void write_token(const RopeKvWriteParams& p, const float* k, const float* v, const float* cos_sin, std::int64_t slot) {
  const std::int64_t block = slot / p.block_size, offset = slot % p.block_size, t = offset % kCellTokens;
  T* const base = static_cast<T*>(p.kv.data) + block * p.kv.block_elements + offset / kCellTokens * p.kv.cell_elements;
  const std::int64_t head_stride = p.kv.cells_per_block * p.kv.cell_elements;
  float rotated[kMaxHeadDim];
  for (std::int64_t h = 0; h < p.kv.num_kv_heads; ++h) {
    normed_rotation(k + h * p.head_dim, p.k_norm, p, cos_sin, rotated);
    const float* values = v + h * p.head_dim;
    T* key = base + h * head_stride + t;
    T* value = base + (p.kv.num_kv_heads + h) * head_stride + t * p.head_dim;
    if constexpr (kScaled<T>) {
      for (std::int32_t i = 0; i < p.head_dim; ++i) round_to(rotated[i] / p.kv.key_scales[h], key[i * kCellTokens]);
      for (std::int32_t i = 0; i < p.head_dim; ++i) round_to(values[i] / p.kv.value_scales[h], value[i]);
    } else {
      for (std::int32_t i = 0; i < p.head_dim; ++i) round_to(rotated[i], key[i * kCellTokens]);
      for (std::int32_t i = 0; i < p.head_dim; ++i) round_to(values[i], value[i]);
    }
  }
}

template <class T>
void rope_kv_write(const RopeKvWriteParams& p, std::int64_t begin, std::int64_t end) {
  QUIRE_CHECK_LE(p.head_dim, kMaxHeadDim);
  QUIRE_CHECK_EQ(kScaled<T>, p.kv.key_scales != nullptr && p.kv.value_scales != nullptr) << "scales belong to FP8";
  const std::int64_t q_size = std::int64_t{p.num_heads} * p.head_dim, kv_size = std::int64_t{p.kv.num_kv_heads} * p.head_dim;
  for (std::int64_t token = begin; token < end; ++token) {
    const float* qkv = p.qkv + token * (q_size + 2 * kv_size);
    const float* cos_sin = p.cos_sin + std::int64_t{p.positions[token]} * p.head_dim;
    for (std::int64_t h = 0; h < p.num_heads; ++h) normed_rotation(qkv + h * p.head_dim, p.q_norm, p, cos_sin, p.q + token * q_size + h * p.head_dim);
    if (p.slots[token] >= 0) write_token<T>(p, qkv + q_size, qkv + q_size + kv_size, cos_sin, p.slots[token]);
  }
}

}  // namespace

void cpu_gather_tokens(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const GatherTokensParams*>(params);
  for (std::int64_t t = begin; t < end; ++t) p.token_ids[t] = p.row_of_token[t] < 0 ? 0 : p.history[p.row_of_token[t] * p.history_stride + p.positions[t]];
}

void cpu_gather_rows(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const GatherRowsParams*>(params);
  const auto bytes = sizeof(float) * static_cast<std::size_t>(p.n);
  for (std::int64_t i = begin; i < end; ++i) {
    if (p.rows[i] < 0) {
      std::memset(p.y + i * p.n, 0, bytes);
    } else {
      std::memcpy(p.y + i * p.n, p.x + p.rows[i] * p.n, bytes);
    }
  }
}

void cpu_embed_f32(const void* p, std::int64_t b, std::int64_t e) { embed_rows<float>(*static_cast<const EmbedParams*>(p), b, e); }
void cpu_embed_f16(const void* p, std::int64_t b, std::int64_t e) { embed_rows<Float16>(*static_cast<const EmbedParams*>(p), b, e); }
void cpu_embed_bf16(const void* p, std::int64_t b, std::int64_t e) { embed_rows<BFloat16>(*static_cast<const EmbedParams*>(p), b, e); }
void cpu_embed_coded(const void* p, std::int64_t b, std::int64_t e) { embed_coded_rows(*static_cast<const EmbedParams*>(p), b, e); }
void cpu_rope_kv_write_f32(const void* p, std::int64_t b, std::int64_t e) { rope_kv_write<float>(*static_cast<const RopeKvWriteParams*>(p), b, e); }
void cpu_rope_kv_write_f16(const void* p, std::int64_t b, std::int64_t e) { rope_kv_write<Float16>(*static_cast<const RopeKvWriteParams*>(p), b, e); }
void cpu_rope_kv_write_bf16(const void* p, std::int64_t b, std::int64_t e) { rope_kv_write<BFloat16>(*static_cast<const RopeKvWriteParams*>(p), b, e); }
void cpu_rope_kv_write_e4m3(const void* p, std::int64_t b, std::int64_t e) { rope_kv_write<Fp8E4m3>(*static_cast<const RopeKvWriteParams*>(p), b, e); }
void cpu_rope_kv_write_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { rope_kv_write<Fp8E4m3Fnuz>(*static_cast<const RopeKvWriteParams*>(p), b, e); }
void cpu_rope_kv_write_e5m2(const void* p, std::int64_t b, std::int64_t e) { rope_kv_write<Fp8E5m2>(*static_cast<const RopeKvWriteParams*>(p), b, e); }

}  // namespace quire::ops
