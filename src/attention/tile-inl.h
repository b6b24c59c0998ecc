// One KV head's attention for a few query rows: the arithmetic that every CPU attention kernel shares, so that decode, extend, prefill and
// unified give the same bits. A row goes through its cached tokens in order, 64 at a time, with a running maximum and sum (Milakov and
// Gimelshein 2018); what it computes never depends on the rows beside it.
#if defined(QUIRE_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_ATTENTION_TILE_INL_H_
#undef QUIRE_ATTENTION_TILE_INL_H_
#else
#define QUIRE_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "attention/params.h"
#include "ops/exp-inl.h"
#include "ops/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::CappedTag<float, 16>;  // a cell's 16 tokens are whole vectors
inline constexpr std::size_t kTileLanes = hn::MaxLanes(TileTag());
inline constexpr std::size_t kCellVectors = 16 / kTileLanes;
inline constexpr std::size_t kTileCells = attention::kTileTokens / 16;
// Cells scored together: enough chains to hide the latency of a multiply-add, few enough for the register file.
inline constexpr std::size_t kCellsAtOnce = HWY_TARGET <= HWY_AVX3 ? 4 : 1;

// What exponents are taken relative to. A row whose scores are all -inf so far keeps weights of 0 (not NaN), as the reference says.
HWY_INLINE float softmax_origin(float max) { return max == -std::numeric_limits<float>::infinity() ? 0.0f : max; }

// Running softmax of one query row.
struct RowState {
  float max, sum;
  float* acc;  // [head_dim]
};

// Rows of one group and the tile they look at.
template <class T>
struct TileView {
  const T* key[kTileCells];    // cells of the tile; only the first num_cells are set
  const T* value[kTileCells];
  std::size_t num_cells;
  std::int64_t head_dim;
};

// scores[r][t] = q[r] . key[t] for R rows and C cells from `cell` on.
template <std::size_t R, std::size_t C, class T>
HWY_INLINE void score_cells(const TileView<T>& tile, std::size_t cell, const float* const* q, float (*scores)[attention::kTileTokens]) {
  const TileTag d;
  hn::Vec<TileTag> sum[R][C * kCellVectors];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < C * kCellVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < tile.head_dim; ++i) {
    hn::Vec<TileTag> key[C * kCellVectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < C * kCellVectors; ++v) key[v] = load_f32(d, tile.key[cell + v / kCellVectors] + i * 16 + static_cast<std::int64_t>(v % kCellVectors * kTileLanes));
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      const auto qv = hn::Set(d, q[r][i]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < C * kCellVectors; ++v) sum[r][v] = hn::MulAdd(qv, key[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < C * kCellVectors; ++v) hn::Store(sum[r][v], d, scores[r] + cell * 16 + v * kTileLanes);
  }
}

template <std::size_t R, class T>
HWY_INLINE void score_tile(const TileView<T>& tile, const float* const* q, float (*scores)[attention::kTileTokens]) {
  std::size_t cell = 0;
  for (; cell + kCellsAtOnce <= tile.num_cells; cell += kCellsAtOnce) score_cells<R, kCellsAtOnce>(tile, cell, q, scores);
  for (; cell < tile.num_cells; ++cell) score_cells<R, 1>(tile, cell, q, scores);
}

// Scores of the first `valid` tokens become probabilities relative to the new maximum, the others 0; returns the factor by which what was
// accumulated before shrinks.
HWY_INLINE float softmax_tile(float* scores, std::int32_t valid, float scale, RowState& state) {
  const TileTag d;
  const auto none = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto best = none;
  for (std::size_t t = 0; t < attention::kTileTokens; t += kTileLanes) {
    const auto in = hn::FirstN(d, valid > static_cast<std::int32_t>(t) ? static_cast<std::size_t>(valid) - t : 0);
    const auto s = hn::IfThenElse(in, hn::Mul(hn::Load(d, scores + t), hn::Set(d, scale)), none);
    hn::Store(s, d, scores + t);
    best = hn::Max(best, s);
  }
  const float max = std::max(state.max, hn::GetLane(hn::MaxOfLanes(d, best))), origin = softmax_origin(max);
  const float shrink = hn::GetLane(exp_f32(d, hn::Set(d, state.max - origin)));
  auto sum = hn::Zero(d);
  for (std::size_t t = 0; t < attention::kTileTokens; t += kTileLanes) {
    const auto p = exp_f32(d, hn::Sub(hn::Load(d, scores + t), hn::Set(d, origin)));
    hn::Store(p, d, scores + t);
    sum = hn::Add(sum, p);
  }
  state.sum = state.sum * shrink + hn::GetLane(hn::SumOfLanes(d, sum));
  state.max = max;
  return shrink;
}

// acc[r] = acc[r] * shrink[r] + sum over tokens of p[r][t] * value[t], for V vectors of dims from `dim` on. Tokens that all rows see go
// through together; each row then finishes alone, in the same order.
template <std::size_t R, std::size_t V, class T>
HWY_INLINE void accumulate(const TileView<T>& tile, std::int64_t dim, const float (*p)[attention::kTileTokens], const std::int32_t* valid, const float* shrink, RowState* const* rows) {
  const TileTag d;
  hn::Vec<TileTag> acc[R][V];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) acc[r][v] = hn::Mul(hn::LoadU(d, rows[r]->acc + dim + static_cast<std::int64_t>(v * kTileLanes)), hn::Set(d, shrink[r]));
  }
  std::int32_t common = valid[0];
  for (std::size_t r = 1; r < R; ++r) common = std::min(common, valid[r]);
  for (std::int32_t t = 0; t < common; ++t) {
    const T* value = tile.value[t / 16] + t % 16 * tile.head_dim + dim;
    hn::Vec<TileTag> x[V];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) x[v] = load_f32(d, value + v * kTileLanes);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
      const auto weight = hn::Set(d, p[r][t]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(weight, x[v], acc[r][v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
    for (std::int32_t t = common; t < valid[r]; ++t) {
      const T* value = tile.value[t / 16] + t % 16 * tile.head_dim + dim;
#pragma GCC unroll 4
      for (std::size_t v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(hn::Set(d, p[r][t]), load_f32(d, value + v * kTileLanes), acc[r][v]);
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) hn::StoreU(acc[r][v], d, rows[r]->acc + dim + static_cast<std::int64_t>(v * kTileLanes));
  }
}

// The last dims of a head size that is no multiple of the vector length.
template <class T>
HWY_INLINE void accumulate_tail(const TileView<T>& tile, std::int64_t dim, const float* p, std::int32_t valid, float shrink, RowState& row) {
  for (; dim < tile.head_dim; ++dim) {
    float acc = row.acc[dim] * shrink;
    for (std::int32_t t = 0; t < valid; ++t) acc += p[t] * scalar_f32(tile.value[t / 16][t % 16 * tile.head_dim + dim]);
    row.acc[dim] = acc;
  }
}

// One tile for R rows, each of which sees at least one of its tokens.
template <std::size_t R, class T>
HWY_INLINE void attend_tile(const TileView<T>& tile, const float* const* q, const std::int32_t* valid, float scale, RowState* const* rows) {
  HWY_ALIGN float scores[R][attention::kTileTokens];
  float shrink[R];
  score_tile<R>(tile, q, scores);
  for (std::size_t r = 0; r < R; ++r) shrink[r] = softmax_tile(scores[r], valid[r], scale, *rows[r]);
  constexpr auto kLanes = static_cast<std::int64_t>(kTileLanes);
  std::int64_t dim = 0;
  for (; dim + 4 * kLanes <= tile.head_dim; dim += 4 * kLanes) accumulate<R, 4>(tile, dim, scores, valid, shrink, rows);
  for (; dim + kLanes <= tile.head_dim; dim += kLanes) accumulate<R, 1>(tile, dim, scores, valid, shrink, rows);
  if (dim == tile.head_dim) return;
  for (std::size_t r = 0; r < R; ++r) accumulate_tail(tile, dim, scores[r], valid[r], shrink[r], *rows[r]);
}

// Log-sum-exp merge of a later partition into the row's total.
HWY_INLINE void merge_partition(RowState& total, const RowState& part, std::int64_t head_dim) {
  const TileTag d;
  const float max = std::max(total.max, part.max), origin = softmax_origin(max);
  const float a = hn::GetLane(exp_f32(d, hn::Set(d, total.max - origin))), b = hn::GetLane(exp_f32(d, hn::Set(d, part.max - origin)));
  for (std::int64_t i = 0; i < head_dim; ++i) total.acc[i] = total.acc[i] * a + part.acc[i] * b;
  total.sum = total.sum * a + part.sum * b;
  total.max = max;
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
