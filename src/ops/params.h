// What each kernel is told: plain pointers into device memory and sizes. Trivially copyable, so that a launch can be recorded.
// Shapes are written [rows, columns], row-major and dense unless a stride is named.
#pragma once
#include <cstdint>

namespace quire::ops {

// token_ids[t] = history[row_of_token[t], positions[t]]; padding (row none = -1) gives token 0.
struct GatherTokensParams {
  const std::int32_t* history;       // [state rows, history_stride]
  std::int64_t history_stride;
  const std::int32_t* row_of_token;  // [tokens]
  const std::int32_t* positions;     // [tokens]
  std::int32_t* token_ids;           // [tokens]
};

struct EmbedParams {
  const std::int32_t* token_ids;  // [tokens]
  const void* table;              // [vocab, hidden] in panels of `panel` rows (1: row-major; 64: a packed linear weight)
  float* out;                     // [tokens, hidden]
  std::int64_t hidden, panel, vocab;
};

struct RmsNormParams {
  const float* x;       // [rows, n]
  float* residual;      // [rows, n] or nullptr: residual += x first, and the sum is normalised
  const float* weight;  // [n]
  float* y;             // [rows, n]
  std::int64_t n;
  float eps;
};

// y[m, n] = sum_k x[m, k] * w[n, k] + bias[n]. Each output is one chain of fused multiply-adds over k = 0, 1, 2, ...: the same bits for
// every m, batch, thread count and vector width.
struct LinearParams {
  const float* x;     // [m, k]
  const void* w;      // packed panels: [ceil(n / 64)][k][64]
  const float* bias;  // [n] or nullptr
  float* y;           // [m, ldy]
  std::int64_t m, n, k, ldy;
};

// Where a layer's cells are in the pool (kv/store/kv_layout.h), flattened for kernels.
struct KvPool {
  void* data;                    // first element of the layer
  std::int64_t block_elements;   // of one block of this layer
  std::int64_t cell_elements;    // 16 * head_dim
  std::int32_t cells_per_block;
  std::int32_t num_kv_heads;
  const float *key_scales, *value_scales;  // [num_kv_heads] each: element = stored number * scale; nullptr: not scaled
};

struct RopeKvWriteParams {
  const float* qkv;               // [tokens, (heads + 2 kv_heads) * head_dim]
  const std::int32_t* positions;  // [tokens]
  const std::int64_t* slots;      // [tokens]; -1: padding, nothing is written
  const float* cos_sin;           // [max positions, head_dim]: cos of head_dim/2 angles, then sin
  const float* q_norm;            // [head_dim] or nullptr
  const float* k_norm;            // [head_dim] or nullptr
  float* q;                       // [tokens, heads * head_dim], rotated
  KvPool kv;
  std::int32_t num_heads, head_dim, block_size;
  float norm_eps;
};

struct SiluMulParams {
  const float* gate_up;  // [rows, 2 n]: gate, then up
  float* y;              // [rows, n]
  std::int64_t n;
};

struct GatherRowsParams {
  const float* x;             // [*, n]
  const std::int32_t* rows;   // [count]; -1: the row becomes zero
  float* y;                   // [count, n]
  std::int64_t n;
};

}  // namespace quire::ops
