// The CPU attention kernels: decode, prefill (and extend), unified. All read keys and values from the cache, never from this step's
// projections, so that a token's result is the same however it came to be computed (docs/NUMERICS.md, "Attention").
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/attention_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <limits>

#include "attention/cpu_kernels.h"
#include "attention/params.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

constexpr std::int32_t kRows = attention::kMaxRows;
using attention::kPartitionTokens;
using attention::kTileTokens;

// Everything one unit needs: up to 32 query rows of one KV head.
struct Unit {
  std::int32_t num_rows = 0;
  const float* q[kRows];
  float* out[kRows];
  std::int32_t length[kRows];  // cached tokens the row sees; never falls from one row to the next
};

HWY_INLINE Unit make_unit(const attention::AttnParams& p, const attention::AttnWork& w, std::int32_t kv_head) {
  Unit u;
  const std::int32_t group = p.num_heads / p.kv.num_kv_heads;
  const std::int32_t first = p.query_start[w.row], query_len = p.query_start[w.row + 1] - first;
  const std::int32_t cached = p.seq_lens[w.row] - query_len;
  for (std::int32_t i = 0; i < w.q_count; ++i) {
    for (std::int32_t g = 0; g < group; ++g) {
      const std::int64_t at = (std::int64_t{first + w.q_begin + i} * p.num_heads + kv_head * group + g) * p.head_dim;
      u.q[u.num_rows] = p.q + at;
      u.out[u.num_rows] = p.out + at;
      u.length[u.num_rows++] = cached + w.q_begin + i + 1;
    }
  }
  return u;
}

template <class T>
HWY_INLINE TileView<T> tile_at(const attention::AttnParams& p, const std::int32_t* blocks, std::int32_t kv_head, std::int32_t start, std::int32_t end) {
  TileView<T> tile{};
  tile.head_dim = p.head_dim;
  tile.num_cells = static_cast<std::size_t>((std::min(end, start + kTileTokens) - start + 15) / 16);
  const std::int64_t head_stride = p.kv.cells_per_block * p.kv.cell_elements;
  for (std::size_t c = 0; c < tile.num_cells; ++c) {
    const std::int32_t token = start + static_cast<std::int32_t>(c) * 16;
    const T* block = static_cast<const T*>(p.kv.data) + std::int64_t{blocks[token / p.block_size]} * p.kv.block_elements + token % p.block_size / 16 * p.kv.cell_elements;
    tile.key[c] = block + kv_head * head_stride;
    tile.value[c] = block + (p.kv.num_kv_heads + kv_head) * head_stride;
  }
  return tile;
}

// Rows [first, first + R) of the unit, all of which see into the tile.
template <std::size_t R, class T>
HWY_INLINE void rows_tile(const Unit& u, std::int32_t first, const TileView<T>& tile, std::int32_t start, float scale, RowState* states) {
  std::int32_t valid[R];
  RowState* rows[R];
  for (std::size_t r = 0; r < R; ++r) {
    const auto row = first + static_cast<std::int32_t>(r);
    valid[r] = std::min(u.length[row] - start, kTileTokens);
    rows[r] = states + row;
  }
  attend_tile<R>(tile, u.q + first, valid, scale, rows);
}

template <class T>
HWY_INLINE void unit_tile(const Unit& u, const TileView<T>& tile, std::int32_t start, float scale, RowState* states) {
  std::int32_t row = 0;
  while (row < u.num_rows && u.length[row] <= start) ++row;
  for (; row + 4 <= u.num_rows; row += 4) rows_tile<4>(u, row, tile, start, scale, states);
  const std::int32_t left = u.num_rows - row;
  if (left == 3) rows_tile<3>(u, row, tile, start, scale, states);
  if (left == 2) rows_tile<2>(u, row, tile, start, scale, states);
  if (left == 1) rows_tile<1>(u, row, tile, start, scale, states);
}

template <class T>
void attend_unit(const attention::AttnParams& p, const attention::AttnWork& work, std::int32_t kv_head) {
  const Unit u = make_unit(p, work, kv_head);
  HWY_ALIGN float part_acc[kRows * attention::kMaxHeadDim];
  RowState total[kRows], part[kRows];
  const std::int64_t d = p.head_dim;
  for (std::int32_t r = 0; r < u.num_rows; ++r) {
    total[r] = RowState{-std::numeric_limits<float>::infinity(), 0.0f, u.out[r]};
    std::fill(u.out[r], u.out[r] + d, 0.0f);  // also what a row that sees nothing gives
    part[r].acc = part_acc + r * d;
  }
  const std::int32_t* blocks = p.block_table + work.table_row * p.block_table_stride;
  const std::int32_t end = u.length[u.num_rows - 1];
  for (std::int32_t from = 0; from < end; from += kPartitionTokens) {
    RowState* states = from == 0 ? total : part;
    for (std::int32_t r = 0; r < u.num_rows; ++r) {
      states[r].max = -std::numeric_limits<float>::infinity();
      states[r].sum = 0.0f;
      std::fill(states[r].acc, states[r].acc + d, 0.0f);
    }
    const std::int32_t to = std::min(end, from + kPartitionTokens);
    for (std::int32_t start = from; start < to; start += kTileTokens) unit_tile(u, tile_at<T>(p, blocks, kv_head, start, to), start, p.scale, states);
    for (std::int32_t r = 0; from != 0 && r < u.num_rows; ++r)
      if (u.length[r] > from) merge_partition(total[r], part[r], d);
  }
  for (std::int32_t r = 0; r < u.num_rows; ++r) {
    if (total[r].sum == 0.0f) continue;  // no key seen, or all scores -inf: zeros
    const float scale = 1.0f / total[r].sum;
    for (std::int64_t i = 0; i < d; ++i) u.out[r][i] *= scale;
  }
}

// Which rows a kernel may be given. A decode row handed to the prefill kernel (or the reverse) is a bug of the plan, never computed twice.
enum class Rows { kDecode, kPrefill, kAny };

template <class T, Rows kKind>
HWY_INLINE void attend_units(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const attention::AttnParams*>(params);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t index = unit / p.kv.num_kv_heads;
    if (index >= *p.num_work) continue;  // a recorded launch has room for more work than this step has
    const attention::AttnWork& work = p.work[index];
    const std::int32_t query_len = p.query_start[work.row + 1] - p.query_start[work.row];
    QUIRE_CHECK(kKind == Rows::kAny || (query_len == 1) == (kKind == Rows::kDecode)) << "row " << work.row << " has query length " << query_len;
    attend_unit<T>(p, work, static_cast<std::int32_t>(unit % p.kv.num_kv_heads));
  }
}

void decode_f32(const void* p, std::int64_t b, std::int64_t e) { attend_units<float, Rows::kDecode>(p, b, e); }
void decode_f16(const void* p, std::int64_t b, std::int64_t e) { attend_units<Float16, Rows::kDecode>(p, b, e); }
void decode_bf16(const void* p, std::int64_t b, std::int64_t e) { attend_units<BFloat16, Rows::kDecode>(p, b, e); }
void prefill_f32(const void* p, std::int64_t b, std::int64_t e) { attend_units<float, Rows::kPrefill>(p, b, e); }
void prefill_f16(const void* p, std::int64_t b, std::int64_t e) { attend_units<Float16, Rows::kPrefill>(p, b, e); }
void prefill_bf16(const void* p, std::int64_t b, std::int64_t e) { attend_units<BFloat16, Rows::kPrefill>(p, b, e); }
void unified_f32(const void* p, std::int64_t b, std::int64_t e) { attend_units<float, Rows::kAny>(p, b, e); }
void unified_f16(const void* p, std::int64_t b, std::int64_t e) { attend_units<Float16, Rows::kAny>(p, b, e); }
void unified_bf16(const void* p, std::int64_t b, std::int64_t e) { attend_units<BFloat16, Rows::kAny>(p, b, e); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::attention {
HWY_EXPORT(decode_f32);
HWY_EXPORT(decode_f16);
HWY_EXPORT(decode_bf16);
HWY_EXPORT(prefill_f32);
HWY_EXPORT(prefill_f16);
HWY_EXPORT(prefill_bf16);
HWY_EXPORT(unified_f32);
HWY_EXPORT(unified_f16);
HWY_EXPORT(unified_bf16);
namespace {
void run_decode_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_f32)(p, b, e); }
void run_decode_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_f16)(p, b, e); }
void run_decode_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(decode_bf16)(p, b, e); }
void run_prefill_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_f32)(p, b, e); }
void run_prefill_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_f16)(p, b, e); }
void run_prefill_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(prefill_bf16)(p, b, e); }
void run_unified_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_f32)(p, b, e); }
void run_unified_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_f16)(p, b, e); }
void run_unified_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(unified_bf16)(p, b, e); }
}  // namespace

std::span<const device::CpuKernel> cpu_kernels() {
  using device::KernelId;
  static constexpr std::array kKernels = {
      device::CpuKernel{KernelId::kAttnDecodeF32, run_decode_f32},
      device::CpuKernel{KernelId::kAttnDecodeF16, run_decode_f16},
      device::CpuKernel{KernelId::kAttnDecodeBF16, run_decode_bf16},
      device::CpuKernel{KernelId::kAttnPrefillF32, run_prefill_f32},
      device::CpuKernel{KernelId::kAttnPrefillF16, run_prefill_f16},
      device::CpuKernel{KernelId::kAttnPrefillBF16, run_prefill_bf16},
      device::CpuKernel{KernelId::kAttnUnifiedF32, run_unified_f32},
      device::CpuKernel{KernelId::kAttnUnifiedF16, run_unified_f16},
      device::CpuKernel{KernelId::kAttnUnifiedBF16, run_unified_bf16},
  };
  return kKernels;
}

}  // namespace quire::attention
#endif
