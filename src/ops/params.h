// What each kernel is told: plain pointers into device memory and sizes. Trivially copyable, so that a launch can be recorded.
// Shapes are written [rows, columns], row-major and dense unless a stride is named.
#pragma once
#include <array>
#include <cstdint>

#include "ops/tensors.h"

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
  const void* table;              // [vocab, hidden] in panels of `panel` rows (1: row-major; 64: a packed linear weight); coded: a packed part
  float* out;                     // [tokens, hidden]
  std::int64_t hidden, panel, vocab;
  float scale;                    // of each element
  WeightFormat format;
};

// Where a finished row of float32 goes as FP8 or int8, for the linear that reads it. A default one: nowhere.
struct QuantiseOut {
  std::uint8_t* values = nullptr;  // [rows, n], and quant.copies() - 1 more, copy_stride apart
  std::int64_t copy_stride = 0;
  float* scales = nullptr;         // [rows, quant.row_floats(n)]; nullptr: static
  InputQuant quant;
};

struct QuantiseParams {
  const float* x;  // [rows, n]
  std::int64_t n;
  QuantiseOut out;
};

struct RmsNormParams {
  const float* x;       // [rows, n]
  float* residual;      // [rows, n] or nullptr: residual += x first, and the sum is normalised
  const float* branch;  // [n] or nullptr: it is x / sqrt(mean(x^2) + eps) * branch that is added to the residual
  const float* weight;  // [n]
  float* y;             // [rows, n]
  std::int64_t n;
  float eps;
  QuantiseOut out;      // of y
};

// y[m, n] = sum_k x[m, k] * w[n, k] + bias[n]. Each output is one chain of fused multiply-adds over k = 0, 1, 2, ...: the same bits for
// every m, batch, thread count and vector width.
// A unit of its work: so many rows of one panel of outputs.
inline constexpr std::int64_t kLinearRows = 48;
struct LinearParams {
  const float* x;     // [m, k]
  const void* w;      // packed panels: [ceil(n / 64)][k][64]
  const float* bias;  // [n] or nullptr
  float* y;           // [m, ldy]
  std::int64_t m, n, k, ldy;
};

// The same of FP8 weights. A chain of multiply-adds over each `group` inputs; group after group, y += chain * scale of x * scale of w
// (products and sum rounded apart); then the bias. Products of two FP8 numbers are exact, so with FP8 inputs every instruction set
// gives the same bits.
struct LinearFp8Params {
  const void* x;          // [m, k]: float32 when `input` is not quantised, else in the weight's encoding, in copies copy_stride apart
  const float* x_scales;  // [m, x_groups]; nullptr: static, or none
  const void* w;          // packed panels; no NaN among them
  const float* w_scales;  // [w_groups][round_up(n, 64)]
  const float* bias;      // [n] or nullptr
  float* y;               // [m, n]
  std::int64_t m, n, k;
  std::int64_t group, x_groups, w_groups;  // x_groups, w_groups: ceil(k / group), or 1
  std::int64_t copy_stride;
  InputQuant input;
  std::int32_t num_parts;                         // of the weight: part p reads copy input.copy_of(p)
  std::array<std::int64_t, kMaxParts> first_rows;
};

// The same of coded weights (ops/coded.h) and int8 inputs. Group after group of inputs, y += (sum of code * x, an exact integer) * scale of x *
// scale of w, then y += (sum of x * scale of x) * offset of w; products and sums rounded apart, so that every instruction set gives the same
// bits; then the bias.
struct LinearCodedParams {
  const std::int8_t* x;   // [m, k]
  const float* x_floats;  // [m, kInt8Input.row_floats(k)]
  std::array<CodedPart, kMaxParts> parts;
  std::array<std::int64_t, kMaxParts> first_rows;
  std::int32_t num_parts;
  const float* bias;      // [n] or nullptr
  float* y;               // [m, n]
  std::int64_t m, n, k;
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

// Of silu_mul and gelu_tanh_mul.
struct GatedMulParams {
  const float* gate_up;  // [rows, 2 n]: gate, then up
  float* y;              // [rows, n]
  std::int64_t n;
  QuantiseOut out;       // of y
};

// x[i] = cap * tanh(x[i] / cap), in place.
struct SoftCapParams {
  float* x;  // [rows, n]
  std::int64_t n;
  float cap;
};

struct GatherRowsParams {
  const float* x;             // [*, n]
  const std::int32_t* rows;   // [count]; -1: the row becomes zero
  float* y;                   // [count, n]
  std::int64_t n;
};

}  // namespace quire::ops
