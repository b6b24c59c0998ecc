#include "ops/ops.h"

#include "kv/store/kv_format.h"

namespace quire::ops {
namespace {

using device::Geometry;
using device::KernelId;

void check_f32(const ActTensor& t, std::int64_t rows, std::int64_t columns) {
  QUIRE_CHECK(!t.quant.quantised() && t.values.dtype == DType::kF32 && t.values.rank == 2 && t.values.is_dense()) << t.values.describe();
  QUIRE_CHECK_EQ(t.rows(), rows) << t.values.describe();
  QUIRE_CHECK_EQ(t.columns(), columns) << t.values.describe();
}

// Rows of a linear are handed out in chunks: long enough to reuse a weight panel from the second-level cache, short enough to share out.
constexpr std::int64_t kLinearRows = 48;

}  // namespace

void gather_tokens(Stream& stream, const GatherTokensParams& params, std::int64_t num_tokens) {
  stream.launch(KernelId::kGatherTokens, Geometry{num_tokens, 8}, params);
}

void embed(Stream& stream, const std::int32_t* token_ids, const EmbeddingTable& table, const ActTensor& out) {
  check_f32(out, out.rows(), table.hidden);
  const KernelId id = device::for_storage(KernelId::kEmbedF32, storage_dtype(table.format));
  stream.launch(id, Geometry{out.rows(), table.hidden}, EmbedParams{token_ids, table.data, out.f32(), table.hidden, table.panel, table.vocab});
}

void rms_norm(Stream& stream, const ActTensor& x, const float* weight, float eps, const ActTensor& y) {
  check_f32(y, x.rows(), x.columns());
  check_f32(x, x.rows(), x.columns());
  stream.launch(KernelId::kRmsNorm, Geometry{x.rows(), 2 * x.columns()}, RmsNormParams{x.f32(), nullptr, weight, y.f32(), x.columns(), eps});
}

void add_rms_norm(Stream& stream, const ActTensor& x, const ActTensor& residual, const float* weight, float eps, const ActTensor& y) {
  check_f32(x, x.rows(), x.columns());
  check_f32(residual, x.rows(), x.columns());
  check_f32(y, x.rows(), x.columns());
  stream.launch(KernelId::kAddRmsNorm, Geometry{x.rows(), 3 * x.columns()}, RmsNormParams{x.f32(), residual.f32(), weight, y.f32(), x.columns(), eps});
}

void linear(Stream& stream, const ActTensor& x, const Weight& w, const ActTensor& y) {
  check_f32(x, x.rows(), w.k);
  check_f32(y, x.rows(), w.n);
  const std::int64_t panels = (w.n + kPanel - 1) / kPanel, chunks = (x.rows() + kLinearRows - 1) / kLinearRows;
  const KernelId id = device::for_storage(KernelId::kLinearF32, storage_dtype(w.format));
  const std::int64_t rows = x.rows() < kLinearRows ? x.rows() : kLinearRows;
  stream.launch(id, Geometry{panels * chunks, rows * kPanel * w.k / 8}, LinearParams{x.f32(), w.packed, w.bias, y.f32(), x.rows(), w.n, w.k, w.n});
}

KvPool layer_pool(const kv::KvLayout& layout, void* pool, const float* scales, std::int32_t layer) {
  QUIRE_CHECK(kv::kv_format_of(layout.dtype).has_value()) << "no cache of " << dtype_name(layout.dtype);
  QUIRE_CHECK_EQ(is_fp8(layout.dtype), scales != nullptr) << "scales belong to FP8";
  const float* layer_scales = scales == nullptr ? nullptr : scales + std::int64_t{layer} * 2 * layout.num_kv_heads;
  auto* base = static_cast<std::byte*>(pool) + layer * layout.layer_elements() * static_cast<std::int64_t>(dtype_bytes(layout.dtype));
  return KvPool{base, layout.block_elements(), layout.cell_elements(), static_cast<std::int32_t>(layout.cells_per_block()), layout.num_kv_heads,
                layer_scales, layer_scales == nullptr ? nullptr : layer_scales + layout.num_kv_heads};
}

void qk_norm_rope_kv_write(Stream& stream, const RopeKvWrite& a, const kv::KvLayout& layout, void* pool, std::int32_t layer) {
  QUIRE_CHECK(layout.key_order == kv::CellOrder::kDimMajor && layout.value_order == kv::CellOrder::kTokenMajor) << "this writer fills K dim-major, V token-major";
  const std::int64_t tokens = a.qkv.rows(), d = layout.head_dim;
  check_f32(a.qkv, tokens, (a.num_heads + 2 * layout.num_kv_heads) * d);
  check_f32(a.q, tokens, a.num_heads * d);
  const KernelId id = device::for_storage(KernelId::kRopeKvWriteF32, layout.dtype);
  stream.launch(id, Geometry{tokens, 4 * a.qkv.columns()},
                RopeKvWriteParams{a.qkv.f32(), a.positions, a.slots, a.cos_sin, a.q_norm, a.k_norm, a.q.f32(), layer_pool(layout, pool, a.kv_scales, layer), a.num_heads,
                                  layout.head_dim, layout.block_size, a.norm_eps});
}

void silu_mul(Stream& stream, const ActTensor& gate_up, const ActTensor& y) {
  check_f32(gate_up, y.rows(), 2 * y.columns());
  check_f32(y, y.rows(), y.columns());
  stream.launch(KernelId::kSiluMul, Geometry{y.rows(), 4 * y.columns()}, SiluMulParams{gate_up.f32(), y.f32(), y.columns()});
}

void gather_rows(Stream& stream, const ActTensor& x, const std::int32_t* rows, const ActTensor& y) {
  check_f32(y, y.rows(), x.columns());
  stream.launch(KernelId::kGatherRows, Geometry{y.rows(), x.columns()}, GatherRowsParams{x.f32(), rows, y.f32(), x.columns()});
}

}  // namespace quire::ops
