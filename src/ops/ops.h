// The operations of a model, as the model writes them: checked contracts on the host, one launch each on a stream. The fused forms are
// the only forms, so that no device grows forms of its own. Every operation computes each row by itself: a row's bits never depend on its neighbours.
#pragma once
#include <cstdint>

#include "device/device.h"
#include "kv/store/kv_layout.h"
#include "ops/params.h"
#include "ops/tensors.h"

namespace quire::ops {

using device::Stream;

// Token ids of this step from the device-resident history: known tokens and freshly sampled ones alike (nothing waits for the host).
void gather_tokens(Stream& stream, const GatherTokensParams& params, std::int64_t num_tokens);

struct EmbeddingTable {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t vocab = 0, hidden = 0;
  const void* data = nullptr;
  std::int64_t panel = 1;  // 1: row-major; kPanel: shares a packed (tied) output projection. Coded: kPanel, tied or not
  float scale = 1.0f;
};
// out[t] = scale * the table's row of token_ids[t].
void embed(Stream& stream, const std::int32_t* token_ids, const EmbeddingTable& table, const ActTensor& out);

// x as `y` wants it: y.quant says how, y.values (and y.scales) get it. x float32, y quantised. y[i] = x[i] / scale, rounded to nearest even
// and saturating; NaN stays NaN (int8: in the scale of its group). A scale that is computed (docs/NUMERICS.md, "FP8 weights") depends on its own row alone.
void quantise(Stream& stream, const ActTensor& x, const ActTensor& y);

// The next four leave float32 in y, and in `quantised` what quantise() makes of it, if that is quantised: the input of the linear that follows.

struct RmsNorm {
  const float* weight = nullptr;  // [n]
  float eps = 0.0f;
};
// y = x / sqrt(mean(x^2) + eps) * weight.
void rms_norm(Stream& stream, const ActTensor& x, const RmsNorm& norm, const ActTensor& y, const ActTensor& quantised = {});
struct ResidualNorm {
  ActTensor residual;             // in and out: [rows, n]
  const float* weight = nullptr;  // [n]
  float eps = 0.0f;
  const float* branch = nullptr;  // [n] or nullptr: no norm of x
};
// residual += x, or rms_norm(x) with norm.branch; y = rms_norm(residual). x is [rows, n].
void add_rms_norm(Stream& stream, const ActTensor& x, const ResidualNorm& norm, const ActTensor& y, const ActTensor& quantised = {});
// y = silu(gate) * up; gate_up [rows, 2n].
void silu_mul(Stream& stream, const ActTensor& gate_up, const ActTensor& y, const ActTensor& quantised = {});
// The same with gelu_tanh(g) = g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))).
void gelu_tanh_mul(Stream& stream, const ActTensor& gate_up, const ActTensor& y, const ActTensor& quantised = {});

// x = cap * tanh(x / cap), in place; cap > 0.
void soft_cap(Stream& stream, const ActTensor& x, float cap);

// y = x w^T + bias, y float32. x as w.input says: float32, or quantised. The pair must have a kernel (ops/linear_table.h).
void linear(Stream& stream, const ActTensor& x, const Weight& w, const ActTensor& y);

struct RopeKvWrite {
  ActTensor qkv;                  // [tokens, (heads + 2 kv_heads) * head_dim]
  const std::int32_t* positions;  // [tokens]
  const std::int64_t* slots;      // [tokens]
  const float* cos_sin;           // [max_model_len, head_dim]
  const float* q_norm = nullptr;  // [head_dim]
  const float* k_norm = nullptr;  // [head_dim]
  float norm_eps = 0.0f;
  std::int32_t num_heads = 0;
  ActTensor q;                    // out: [tokens, heads * head_dim]
  const float* kv_scales = nullptr;  // as layer_pool takes them
};
// Optional per-head norms of q and k, rotary embedding (pairs i and i + head_dim/2), and the write of k and v into their cells of
// `layer`, in the pool's storage type (FP8: divided by the head's scale first). Attention reads everything back from there.
void qk_norm_rope_kv_write(Stream& stream, const RopeKvWrite& args, const kv::KvLayout& layout, void* pool, std::int32_t layer);

// y[i] = x[rows[i]]; rows[i] = -1 gives zeros.
void gather_rows(Stream& stream, const ActTensor& x, const std::int32_t* rows, const ActTensor& y);

// The layer's part of the pool as kernels address it. `scales` [num_layers, 2, num_kv_heads]: of keys, then of values; FP8 needs them,
// other elements have none (nullptr).
[[nodiscard]] KvPool layer_pool(const kv::KvLayout& layout, void* pool, const float* scales, std::int32_t layer);

}  // namespace quire::ops
