#include "ops/ops.h"

#include <algorithm>

#include "kv/store/kv_format.h"
#include "ops/coded.h"
#include "ops/linear_table.h"

namespace quire::ops {
namespace {

using device::Geometry;
using device::KernelId;

void check_f32(const ActTensor& t, std::int64_t rows, std::int64_t columns) {
  QUIRE_CHECK(!t.quant.quantised() && t.values.dtype == DType::kF32 && t.values.rank == 2 && t.values.is_dense()) << t.values.describe();
  QUIRE_CHECK_EQ(t.rows(), rows) << t.values.describe();
  QUIRE_CHECK_EQ(t.columns(), columns) << t.values.describe();
}

// `t` as the place that rows of [rows, columns] go to; nowhere when it is not quantised.
QuantiseOut quantise_out(const ActTensor& t, std::int64_t rows, std::int64_t columns) {
  const InputQuant& q = t.quant;
  if (!q.quantised()) return {};
  QUIRE_CHECK(q.format != ActFormat::kF32 && t.values.dtype == storage_dtype(q.format) && t.values.rank == 2 && t.values.is_dense()) << t.values.describe();
  QUIRE_CHECK_EQ(t.rows(), rows) << t.values.describe();
  QUIRE_CHECK_EQ(t.columns(), columns) << t.values.describe();
  QUIRE_CHECK_EQ(t.scales != nullptr, q.scaling != ActScaling::kStatic) << "scales are computed with the rows, unless they are static";
  QUIRE_CHECK(q.format != ActFormat::kInt8 || (q == kInt8Input && columns % kInt8Group == 0)) << "int8 numbers of " << columns << " columns";
  QUIRE_CHECK(q.copies() >= 1 && q.copies() <= kMaxParts && (q.copies() == 1 || t.copy_stride >= rows * columns)) << q.copies() << " copies, " << t.copy_stride << " elements apart";
  return QuantiseOut{t.values.as<std::uint8_t>(), t.copy_stride, t.scales, q};
}

}  // namespace

void gather_tokens(Stream& stream, const GatherTokensParams& params, std::int64_t num_tokens) {
  stream.launch(KernelId::kGatherTokens, Geometry{num_tokens, 8}, params);
}

void embed(Stream& stream, const std::int32_t* token_ids, const EmbeddingTable& table, const ActTensor& out) {
  check_f32(out, out.rows(), table.hidden);
  const bool coded = is_coded(table.format);
  QUIRE_CHECK(!coded || (table.panel == kPanel && table.hidden % coded_layout(table.format).super_inputs() == 0)) << "coded tables are packed";
  const KernelId id = coded ? KernelId::kEmbedCoded : device::for_storage(KernelId::kEmbedF32, storage_dtype(table.format));
  stream.launch(id, Geometry{out.rows(), (coded ? 16 : 1) * table.hidden}, EmbedParams{token_ids, table.data, out.f32(), table.hidden, table.panel, table.vocab, table.scale, table.format});
}

void quantise(Stream& stream, const ActTensor& x, const ActTensor& y) {
  check_f32(x, y.rows(), y.columns());
  QUIRE_CHECK(y.quant.quantised());
  stream.launch(KernelId::kQuantise, Geometry{x.rows(), 2 * x.columns()}, QuantiseParams{x.f32(), x.columns(), quantise_out(y, x.rows(), x.columns())});
}

void rms_norm(Stream& stream, const ActTensor& x, const RmsNorm& norm, const ActTensor& y, const ActTensor& quantised) {
  check_f32(y, x.rows(), x.columns());
  check_f32(x, x.rows(), x.columns());
  stream.launch(KernelId::kRmsNorm, Geometry{x.rows(), 2 * x.columns()},
                RmsNormParams{x.f32(), nullptr, nullptr, norm.weight, y.f32(), x.columns(), norm.eps, quantise_out(quantised, x.rows(), x.columns())});
}

void add_rms_norm(Stream& stream, const ActTensor& x, const ResidualNorm& norm, const ActTensor& y, const ActTensor& quantised) {
  check_f32(x, x.rows(), x.columns());
  check_f32(norm.residual, x.rows(), x.columns());
  check_f32(y, x.rows(), x.columns());
  stream.launch(KernelId::kAddRmsNorm, Geometry{x.rows(), 3 * x.columns()},
                RmsNormParams{x.f32(), norm.residual.f32(), norm.branch, norm.weight, y.f32(), x.columns(), norm.eps, quantise_out(quantised, x.rows(), x.columns())});
}

namespace {

void gated_mul(Stream& stream, KernelId kernel, const ActTensor& gate_up, const ActTensor& y, const ActTensor& quantised) {
  check_f32(gate_up, y.rows(), 2 * y.columns());
  check_f32(y, y.rows(), y.columns());
  stream.launch(kernel, Geometry{y.rows(), 4 * y.columns()}, GatedMulParams{gate_up.f32(), y.f32(), y.columns(), quantise_out(quantised, y.rows(), y.columns())});
}

}  // namespace

void silu_mul(Stream& stream, const ActTensor& gate_up, const ActTensor& y, const ActTensor& quantised) { gated_mul(stream, KernelId::kSiluMul, gate_up, y, quantised); }
void gelu_tanh_mul(Stream& stream, const ActTensor& gate_up, const ActTensor& y, const ActTensor& quantised) { gated_mul(stream, KernelId::kGeluTanhMul, gate_up, y, quantised); }

void soft_cap(Stream& stream, const ActTensor& x, float cap) {
  check_f32(x, x.rows(), x.columns());
  QUIRE_CHECK_GT(cap, 0.0f);
  stream.launch(KernelId::kSoftCap, Geometry{x.rows(), 2 * x.columns()}, SoftCapParams{x.f32(), x.columns(), cap});
}

namespace {

LinearFp8Params fp8_params(const ActTensor& x, const Weight& w, const ActTensor& y) {
  QUIRE_CHECK(w.scales != nullptr) << "FP8 weights have scales";
  QUIRE_CHECK(w.scale_group == w.k || w.scale_group == kScaleGroup) << "scales of " << w.scale_group << " inputs";
  QUIRE_CHECK(w.num_parts >= 1 && w.num_parts <= kMaxParts && w.first_rows[0] == 0) << w.num_parts << " parts";
  for (int p = 1; p < w.num_parts; ++p) QUIRE_CHECK(w.first_rows[static_cast<std::size_t>(p)] > w.first_rows[static_cast<std::size_t>(p - 1)] && w.first_rows[static_cast<std::size_t>(p)] < w.n);
  QUIRE_CHECK(w.input.copies() == 1 || w.input.copies() == w.num_parts) << "one input scale for all parts, or one for each";
  const std::int64_t x_scales = w.input.row_scales(w.k), w_scales = Weight::scale_rows(w.k, w.scale_group);
  return LinearFp8Params{.x = x.values.data, .x_scales = x.scales, .w = w.packed, .w_scales = w.scales, .bias = w.bias, .y = y.f32(), .m = x.rows(), .n = w.n, .k = w.k,
                         .group = x_scales > 1 || w_scales > 1 ? kScaleGroup : w.k, .x_groups = x_scales, .w_groups = w_scales, .copy_stride = x.copy_stride,
                         .input = w.input, .num_parts = w.num_parts, .first_rows = w.first_rows};
}

// A unit's work in multiply-adds of a core at full speed. Few rows wait for their codes from memory, a byte of which takes about as long as one.
std::int64_t coded_unit_work(const Weight& w, std::int64_t rows) {
  const std::int64_t bytes = coded_layout(w.format).panel_bytes(w.k);
  return std::max(rows * kPanel * w.k / 16, bytes);
}

void linear_coded(Stream& stream, const ActTensor& x, const Weight& w, const ActTensor& y) {
  LinearCodedParams params{.x = x.values.as<std::int8_t>(), .x_floats = x.scales, .parts = w.coded, .first_rows = w.first_rows, .num_parts = w.num_parts,
                           .bias = w.bias, .y = y.f32(), .m = x.rows(), .n = w.n, .k = w.k};
  QUIRE_CHECK(w.num_parts >= 1 && w.num_parts <= kMaxParts && w.first_rows[0] == 0) << w.num_parts << " parts";
  std::int64_t panels = 0;
  for (int p = 0; p < w.num_parts; ++p) {
    const CodedPart& part = w.coded[static_cast<std::size_t>(p)];
    QUIRE_CHECK(is_coded(part.format) && part.packed != nullptr && w.part_rows(p) > 0) << "part " << p;
    QUIRE_CHECK(w.k % coded_layout(part.format).super_inputs() == 0) << w.k << " inputs of " << coded_layout(part.format).name;
    panels += (w.part_rows(p) + kPanel - 1) / kPanel;
  }
  const std::int64_t chunks = (x.rows() + kLinearRows - 1) / kLinearRows;
  stream.launch(KernelId::kLinearCoded, Geometry{panels * chunks, coded_unit_work(w, std::min(x.rows(), kLinearRows))}, params);
}

}  // namespace

void linear(Stream& stream, const ActTensor& x, const Weight& w, const ActTensor& y) {
  const LinearRow* row = find_linear(w.format, w.input, LinearDevice::kCpu);
  QUIRE_CHECK(row != nullptr && row->refusal.empty()) << linear_support(w.format, w.input, LinearDevice::kCpu).error().message;
  QUIRE_CHECK(x.quant == w.input) << "the input is not quantised as the weight wants it";
  if (x.quant.quantised()) {
    (void)quantise_out(x, x.rows(), w.k);  // its shape and scales
  } else {
    check_f32(x, x.rows(), w.k);
  }
  check_f32(y, x.rows(), w.n);
  if (is_coded(w.format)) return linear_coded(stream, x, w, y);
  const std::int64_t panels = (w.n + kPanel - 1) / kPanel, chunks = (x.rows() + kLinearRows - 1) / kLinearRows;
  const std::int64_t rows = x.rows() < kLinearRows ? x.rows() : kLinearRows;
  const Geometry geometry{panels * chunks, rows * kPanel * w.k / 8};
  if (is_fp8(w.format)) {
    stream.launch(row->kernel, geometry, fp8_params(x, w, y));
  } else {
    stream.launch(row->kernel, geometry, LinearParams{x.f32(), w.packed, w.bias, y.f32(), x.rows(), w.n, w.k, w.n});
  }
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

void gather_rows(Stream& stream, const ActTensor& x, const std::int32_t* rows, const ActTensor& y) {
  check_f32(y, y.rows(), x.columns());
  stream.launch(KernelId::kGatherRows, Geometry{y.rows(), x.columns()}, GatherRowsParams{x.f32(), rows, y.f32(), x.columns()});
}

}  // namespace quire::ops
