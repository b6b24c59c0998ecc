// Attention for one unit of work, from its query rows to finished outputs, and the loops over units: what the kernels of every storage
// type are made of. All read keys and values from the cache, never from this step's projections, so that a token's result is the same
// however it came to be computed (docs/NUMERICS.md, "Attention"). Included once per instruction set.
#if defined(QUIRE_ATTENTION_UNIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_ATTENTION_UNIT_INL_H_
#undef QUIRE_ATTENTION_UNIT_INL_H_
#else
#define QUIRE_ATTENTION_UNIT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "attention/params.h"
#include "attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

inline constexpr std::int32_t kRows = attention::kMaxRows;
using attention::kPartitionTokens;
using attention::kTileTokens;
inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Everything one unit needs: up to 32 query rows of one KV head. Neither end of what rows see falls from one row to the next.
struct Unit {
  std::int32_t num_rows = 0;
  const float* q[kRows];
  float* out[kRows];
  std::int32_t begin[kRows], end[kRows];  // positions that the row sees; it stands at end - 1
  float slope[kRows];
  std::int32_t head[kRows], token[kRows];  // query head; token of the entry
  std::int32_t group;

  // The first partition that a row sees, and whether it sees into the one from `from` on.
  [[nodiscard]] std::int32_t first_partition(std::int32_t r) const { return begin[r] / kPartitionTokens * kPartitionTokens; }
  [[nodiscard]] bool sees(std::int32_t r, std::int32_t from) const { return end[r] > from && begin[r] < from + kPartitionTokens; }
};

HWY_INLINE std::int32_t first_visible(const attention::MaskParams& masks, std::int32_t position) {
  std::int32_t first = 0;
  if (masks.window > 0) first = std::max(first, position - masks.window + 1);
  if (masks.chunk > 0) first = std::max(first, position / masks.chunk * masks.chunk);
  return first;
}

HWY_INLINE Unit make_unit(const attention::AttnParams& p, const attention::AttnWork& w, std::int32_t kv_head) {
  Unit u;
  u.group = p.num_heads / p.kv.num_kv_heads;
  const std::int32_t first = p.query_start[w.row], query_len = p.query_start[w.row + 1] - first;
  const std::int32_t cached = p.seq_lens[w.row] - query_len;
  for (std::int32_t i = 0; i < w.q_count; ++i) {
    const std::int32_t position = cached + w.q_begin + i;
    for (std::int32_t g = 0; g < u.group; ++g) {
      const std::int32_t r = u.num_rows++, head = kv_head * u.group + g;
      const std::int64_t at = (std::int64_t{first + w.q_begin + i} * p.num_heads + head) * p.head_dim;
      u.q[r] = p.q + at;
      u.out[r] = p.out + at;
      u.begin[r] = position < 0 ? 0 : first_visible(p.masks, position);
      u.end[r] = position + 1;
      u.slope[r] = p.masks.alibi_slopes == nullptr ? 0.0f : p.masks.alibi_slopes[head];
      u.head[r] = head;
      u.token[r] = i;
    }
  }
  return u;
}

// Tokens [start, start + 64) up to `end`; cells wholly before `begin` are not touched, nor are their table entries read.
template <class T>
HWY_INLINE TileView<T> tile_at(const attention::AttnParams& p, const std::int32_t* blocks, std::int32_t kv_head, std::int32_t start, std::int32_t begin, std::int32_t end) {
  TileView<T> tile{};
  tile.head_dim = p.head_dim;
  tile.first_cell = static_cast<std::size_t>(std::max(begin - start, 0) / 16);
  tile.num_cells = static_cast<std::size_t>((std::min(end, start + kTileTokens) - start + 15) / 16);
  const std::int64_t head_stride = p.kv.cells_per_block * p.kv.cell_elements;
  for (std::size_t c = tile.first_cell; c < tile.num_cells; ++c) {
    const std::int32_t token = start + static_cast<std::int32_t>(c) * 16;
    const T* block = static_cast<const T*>(p.kv.data) + std::int64_t{blocks[token / p.block_size]} * p.kv.block_elements + token % p.block_size / 16 * p.kv.cell_elements;
    tile.key[c] = block + kv_head * head_stride;
    tile.value[c] = block + (p.kv.num_kv_heads + kv_head) * head_stride;
  }
  return tile;
}

// Rows [first, first + R) of the unit, all of which see into the tile.
template <std::size_t R, class T>
HWY_INLINE void rows_tile(const Unit& u, std::int32_t first, const TileView<T>& tile, std::int32_t start, const ScoreRules& rules, RowState* states) {
  RowView views[R];
  RowState* rows[R];
  for (std::size_t r = 0; r < R; ++r) {
    const auto row = first + static_cast<std::int32_t>(r);
    views[r] = RowView{std::max(u.begin[row] - start, 0), std::min(u.end[row] - start, kTileTokens), start - (u.end[row] - 1), u.slope[row]};
    rows[r] = states + row;
  }
  attend_tile<R>(tile, u.q + first, views, rules, rows);
}

template <class T>
HWY_INLINE void unit_tile(const attention::AttnParams& p, const Unit& u, const std::int32_t* blocks, std::int32_t start, const ScoreRules& rules, RowState* states) {
  std::int32_t row = 0, end = u.num_rows;
  while (row < end && u.end[row] <= start) ++row;
  while (row < end && u.begin[end - 1] >= start + kTileTokens) --end;
  if (row == end) return;
  const TileView<T> tile = tile_at<T>(p, blocks, u.head[0] / u.group, start, u.begin[row], u.end[end - 1]);
  for (; row + 4 <= end; row += 4) rows_tile<4>(u, row, tile, start, rules, states);
  const std::int32_t left = end - row;
  if (left == 3) rows_tile<3>(u, row, tile, start, rules, states);
  if (left == 2) rows_tile<2>(u, row, tile, start, rules, states);
  if (left == 1) rows_tile<1>(u, row, tile, start, rules, states);
}

// What stored numbers of a KV head are worth: 1 where the cache is not scaled.
HWY_INLINE float head_scale(const float* scales, std::int32_t kv_head) { return scales == nullptr ? 1.0f : scales[kv_head]; }

// The unit's rows over the partition that begins at `from`, into fresh `states`.
template <class T>
HWY_NOINLINE void attend_partition(const attention::AttnParams& p, const Unit& u, const std::int32_t* blocks, std::int32_t from, RowState* states) {
  for (std::int32_t r = 0; r < u.num_rows; ++r) {
    states[r].max = kNothing;
    states[r].sum = 0.0f;
    std::fill(states[r].acc, states[r].acc + p.head_dim, 0.0f);
  }
  const attention::MaskParams& m = p.masks;
  const ScoreRules rules{p.scale * head_scale(p.kv.key_scales, u.head[0] / u.group), m.soft_cap, m.soft_cap > 0.0f ? 1.0f / m.soft_cap : 0.0f, m.soft_cap > 0.0f, m.alibi_slopes != nullptr};
  const std::int32_t to = std::min(u.end[u.num_rows - 1], from + kPartitionTokens);
  for (std::int32_t start = std::max(from, u.begin[0] / kTileTokens * kTileTokens); start < to; start += kTileTokens) unit_tile<T>(p, u, blocks, start, rules, states);
}

// The next partition, in order, of a row: its first is taken as it is, so that a row of one partition is never rescaled.
HWY_INLINE void take_partition(const Unit& u, std::int32_t r, std::int32_t from, const RowState& part, std::int64_t head_dim, RowState& total) {
  if (from != u.first_partition(r)) return merge_partition(total, part, head_dim);
  total.max = part.max;
  total.sum = part.sum;
  std::copy(part.acc, part.acc + head_dim, total.acc);
}

// Divides by the sum, to which the sink adds, and gives the values their scale. A row that saw no key, or only scores of -inf, keeps its zeros.
HWY_INLINE void finish_row(const attention::AttnParams& p, std::int32_t head, RowState& total) {
  const TileTag d;
  float sum = total.sum, shrink = 1.0f;
  if (p.masks.sinks != nullptr) {
    const float sink = p.masks.sinks[head], origin = softmax_origin(std::max(total.max, sink));
    shrink = hn::GetLane(exp_f32(d, hn::Set(d, total.max - origin)));
    sum = sum * shrink + hn::GetLane(exp_f32(d, hn::Set(d, sink - origin)));
  }
  if (sum == 0.0f) return;
  const float scale = shrink / sum * head_scale(p.kv.value_scales, head / (p.num_heads / p.kv.num_kv_heads));
  for (std::int64_t i = 0; i < p.head_dim; ++i) total.acc[i] *= scale;
}

HWY_INLINE void empty_totals(const Unit& u, std::int64_t head_dim, RowState* total) {
  for (std::int32_t r = 0; r < u.num_rows; ++r) {
    total[r] = RowState{kNothing, 0.0f, u.out[r]};
    std::fill(u.out[r], u.out[r] + head_dim, 0.0f);
  }
}

template <class T>
HWY_NOINLINE void attend_unit(const attention::AttnParams& p, const attention::AttnWork& work, std::int32_t kv_head) {
  const Unit u = make_unit(p, work, kv_head);
  HWY_ALIGN float part_acc[kRows * attention::kMaxHeadDim];
  RowState total[kRows], part[kRows];
  empty_totals(u, p.head_dim, total);
  for (std::int32_t r = 0; r < u.num_rows; ++r) part[r].acc = part_acc + r * p.head_dim;
  const std::int32_t* blocks = p.block_table + work.table_row * p.block_table_stride;
  for (std::int32_t from = u.first_partition(0); from < u.end[u.num_rows - 1]; from += kPartitionTokens) {
    attend_partition<T>(p, u, blocks, from, part);
    for (std::int32_t r = 0; r < u.num_rows; ++r)
      if (u.sees(r, from)) take_partition(u, r, from, part[r], p.head_dim, total[r]);
  }
  for (std::int32_t r = 0; r < u.num_rows; ++r) finish_row(p, u.head[r], total[r]);
}

// Where the partition of a row lies in the workspace: its place among [slots, num_heads].
HWY_INLINE std::int64_t partial_at(const attention::AttnParams& p, const attention::AttnWork& w, const Unit& u, std::int32_t r, std::int32_t partition) {
  return (std::int64_t{w.slot} + std::int64_t{partition} * w.q_count + u.token[r]) * p.num_heads + u.head[r];
}

template <class T>
void attend_part(const attention::AttnParams& p, const attention::DecodePart& part, std::int32_t kv_head) {
  const attention::AttnWork& work = p.work[part.entry];
  if (part.partition == attention::kAllPartitions) return attend_unit<T>(p, work, kv_head);
  QUIRE_CHECK(work.slot >= 0 && p.partials.acc != nullptr) << "entry " << part.entry << " of row " << work.row << " has no room for partials";
  const Unit u = make_unit(p, work, kv_head);
  const std::int32_t from = part.partition * kPartitionTokens;
  if (u.end[u.num_rows - 1] <= from || u.begin[0] >= from + kPartitionTokens) return;  // before every row's window: combine does not look
  RowState states[kRows];
  for (std::int32_t r = 0; r < u.num_rows; ++r) states[r].acc = p.partials.acc + partial_at(p, work, u, r, part.partition) * p.head_dim;
  attend_partition<T>(p, u, p.block_table + work.table_row * p.block_table_stride, from, states);
  for (std::int32_t r = 0; r < u.num_rows; ++r) {
    float* stats = p.partials.stats + partial_at(p, work, u, r, part.partition) * 2;
    stats[0] = states[r].max;
    stats[1] = states[r].sum;
  }
}

HWY_INLINE void combine_unit(const attention::AttnParams& p, const attention::AttnWork& work, std::int32_t kv_head) {
  if (work.slot < 0) return;  // computed whole
  const Unit u = make_unit(p, work, kv_head);
  RowState total[kRows];
  empty_totals(u, p.head_dim, total);
  for (std::int32_t r = 0; r < u.num_rows; ++r) {
    for (std::int32_t from = u.first_partition(r); from < u.end[r]; from += kPartitionTokens) {
      const std::int64_t at = partial_at(p, work, u, r, from / kPartitionTokens);
      const float* stats = p.partials.stats + at * 2;
      take_partition(u, r, from, RowState{stats[0], stats[1], p.partials.acc + at * p.head_dim}, p.head_dim, total[r]);
    }
    finish_row(p, u.head[r], total[r]);
  }
}

// Which rows a kernel may be given. A decode row handed to the prefill kernel (or the reverse) is a bug of the plan, never computed twice.
enum class Rows { kDecode, kPrefill, kAny };

HWY_INLINE void check_row(const attention::AttnParams& p, const attention::AttnWork& work, Rows kind) {
  const std::int32_t query_len = p.query_start[work.row + 1] - p.query_start[work.row];
  QUIRE_CHECK(kind == Rows::kAny || (query_len <= p.decode_query_len) == (kind == Rows::kDecode)) << "row " << work.row << " has query length " << query_len;
}

// Calls run(params, index in the launch's list, KV head). A recorded launch may have far more units than a step has work: the work is
// dealt evenly over them, or all of it would fall to the first thread.
template <class Run>
HWY_INLINE void for_units(const void* params, std::int64_t begin, std::int64_t end, Run run) {
  const auto& p = *static_cast<const attention::AttnParams*>(params);
  const std::int64_t real = std::int64_t{*p.num_work} * p.kv.num_kv_heads;
  QUIRE_CHECK(real >= 0 && real <= p.launch_units) << *p.num_work << " entries, launched for " << p.launch_units / p.kv.num_kv_heads;
  for (std::int64_t unit = begin * real / p.launch_units; unit < end * real / p.launch_units; ++unit) run(p, unit / p.kv.num_kv_heads, static_cast<std::int32_t>(unit % p.kv.num_kv_heads));
}

template <class T, Rows kKind>
HWY_INLINE void attend_units(const void* params, std::int64_t begin, std::int64_t end) {
  for_units(params, begin, end, [](const attention::AttnParams& p, std::int64_t index, std::int32_t kv_head) HWY_ATTR {
    check_row(p, p.work[index], kKind);
    attend_unit<T>(p, p.work[index], kv_head);
  });
}

template <class T>
HWY_INLINE void decode_units(const void* params, std::int64_t begin, std::int64_t end) {
  for_units(params, begin, end, [](const attention::AttnParams& p, std::int64_t index, std::int32_t kv_head) HWY_ATTR {
    check_row(p, p.work[p.parts[index].entry], Rows::kDecode);
    attend_part<T>(p, p.parts[index], kv_head);
  });
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
