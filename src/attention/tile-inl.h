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
#include "ops/tanh-inl.h"

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
  const T* key[kTileCells];    // cells of the tile; only [first_cell, num_cells) are set, read and scored
  const T* value[kTileCells];
  std::size_t first_cell, num_cells;
  std::int64_t head_dim;
};

// Which of a tile's tokens a row sees and what is added to their scores.
struct RowView {
  std::int32_t first, last;  // tokens [first, last) of the tile; first < last
  std::int32_t behind;       // the tile's first position less the row's: at most 0
  float slope;               // ALiBi
};

// What a score goes through between q . k and softmax, for all rows of a launch.
struct ScoreRules {
  float scale, soft_cap, inverse_cap;
  bool capped, biased;
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
  std::size_t cell = tile.first_cell;
  for (; cell + kCellsAtOnce <= tile.num_cells; cell += kCellsAtOnce) score_cells<R, kCellsAtOnce>(tile, cell, q, scores);
  for (; cell < tile.num_cells; ++cell) score_cells<R, 1>(tile, cell, q, scores);
}

// Soft cap, then ALiBi; scaled already when done. Tokens that the row does not see may hold anything.
HWY_INLINE void shape_scores(float* scores, const ScoreRules& rules, const RowView& row) {
  const TileTag d;
  for (std::size_t t = 0; t < attention::kTileTokens; t += kTileLanes) {
    auto s = hn::Mul(hn::Load(d, scores + t), hn::Set(d, rules.scale));
    if (rules.capped) s = hn::Mul(tanh_f32(d, hn::Mul(s, hn::Set(d, rules.inverse_cap))), hn::Set(d, rules.soft_cap));
    if (rules.biased) s = hn::MulAdd(hn::Set(d, row.slope), hn::Iota(d, static_cast<float>(row.behind + static_cast<std::int32_t>(t))), s);
    hn::Store(s, d, scores + t);
  }
}

// Of the lanes from token t on: those below `end`.
HWY_INLINE hn::Mask<TileTag> lanes_below(std::int32_t end, std::size_t t) {
  return hn::FirstN(TileTag(), end > static_cast<std::int32_t>(t) ? static_cast<std::size_t>(end) - t : 0);
}

// Scores of the tokens that the row sees become probabilities relative to the new maximum, the others 0; returns the factor by which
// what was accumulated before shrinks.
HWY_INLINE float softmax_tile(float* scores, const RowView& row, const ScoreRules& rules, RowState& state) {
  const TileTag d;
  const auto none = hn::Set(d, -std::numeric_limits<float>::infinity());
  const bool shaped = rules.capped || rules.biased;
  if (shaped) shape_scores(scores, rules, row);
  const float scale = shaped ? 1.0f : rules.scale;
  auto best = none;
  for (std::size_t t = 0; t < attention::kTileTokens; t += kTileLanes) {
    const auto in = hn::AndNot(lanes_below(row.first, t), lanes_below(row.last, t));
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

// Adds p[t] * value[t] for tokens [begin, end) of one row.
template <std::size_t V, class T>
HWY_INLINE void accumulate_alone(const TileView<T>& tile, std::int64_t dim, const float* p, std::int32_t begin, std::int32_t end, hn::Vec<TileTag>* acc) {
  const TileTag d;
  for (std::int32_t t = begin; t < end; ++t) {
    const T* value = tile.value[t / 16] + t % 16 * tile.head_dim + dim;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) acc[v] = hn::MulAdd(hn::Set(d, p[t]), load_f32(d, value + v * kTileLanes), acc[v]);
  }
}

// acc[r] = acc[r] * shrink[r] + sum over tokens of p[r][t] * value[t], for V vectors of dims from `dim` on. Tokens that all rows see go
// through together; before and after them each row goes alone. Every row's own order is t rising.
template <std::size_t R, std::size_t V, class T>
HWY_INLINE void accumulate(const TileView<T>& tile, std::int64_t dim, const float (*p)[attention::kTileTokens], const RowView* views, const float* shrink, RowState* const* rows) {
  const TileTag d;
  hn::Vec<TileTag> acc[R][V];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) acc[r][v] = hn::Mul(hn::LoadU(d, rows[r]->acc + dim + static_cast<std::int64_t>(v * kTileLanes)), hn::Set(d, shrink[r]));
  }
  std::int32_t from = views[0].first, to = views[0].last;
  for (std::size_t r = 1; r < R; ++r) from = std::max(from, views[r].first), to = std::min(to, views[r].last);
  if (from >= to) from = to = 0;  // no token is seen by all
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) accumulate_alone<V>(tile, dim, p[r], views[r].first, from, acc[r]);
  for (std::int32_t t = from; t < to; ++t) {
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
    accumulate_alone<V>(tile, dim, p[r], std::max(to, views[r].first), views[r].last, acc[r]);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < V; ++v) hn::StoreU(acc[r][v], d, rows[r]->acc + dim + static_cast<std::int64_t>(v * kTileLanes));
  }
}

// The last dims of a head size that is no multiple of the vector length.
template <class T>
HWY_INLINE void accumulate_tail(const TileView<T>& tile, std::int64_t dim, const float* p, const RowView& view, float shrink, RowState& row) {
  for (; dim < tile.head_dim; ++dim) {
    float acc = row.acc[dim] * shrink;
    for (std::int32_t t = view.first; t < view.last; ++t) acc += p[t] * scalar_f32(tile.value[t / 16][t % 16 * tile.head_dim + dim]);
    row.acc[dim] = acc;
  }
}

// One tile for R rows, each of which sees at least one of its tokens.
template <std::size_t R, class T>
HWY_INLINE void attend_tile(const TileView<T>& tile, const float* const* q, const RowView* views, const ScoreRules& rules, RowState* const* rows) {
  HWY_ALIGN float scores[R][attention::kTileTokens];
  float shrink[R];
  score_tile<R>(tile, q, scores);
  for (std::size_t r = 0; r < R; ++r) shrink[r] = softmax_tile(scores[r], views[r], rules, *rows[r]);
  constexpr auto kLanes = static_cast<std::int64_t>(kTileLanes);
  std::int64_t dim = 0;
  for (; dim + 4 * kLanes <= tile.head_dim; dim += 4 * kLanes) accumulate<R, 4>(tile, dim, scores, views, shrink, rows);
  for (; dim + kLanes <= tile.head_dim; dim += kLanes) accumulate<R, 1>(tile, dim, scores, views, shrink, rows);
  if (dim == tile.head_dim) return;
  for (std::size_t r = 0; r < R; ++r) accumulate_tail(tile, dim, scores[r], views[r], shrink[r], *rows[r]);
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
