// Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1) over a paged KV cache: causal, with grouped
// query heads (Ainslie et al. 2023, arXiv:2305.13245) and the masks of published models. Defines the edge cases for every backend.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kv/store/kv_layout.h"
#include "reference/kv_cache.h"
#include "reference/matrix.h"

namespace quire::reference {

struct AttentionBatch {
  std::vector<std::int32_t> query_start_loc;            // [sequences + 1], rising from 0; sequence s owns query rows [start[s], start[s + 1])
  std::vector<std::int32_t> seq_lens;                   // [sequences], tokens in the cache, the new ones included
  std::vector<std::vector<std::int32_t>> block_tables;  // [sequences], at least ceil(seq_len / block_size) block ids; more are not read
};

// Beyond causality. All may be combined; a key is seen when every mask lets it through. Zero or empty: off.
struct AttentionMasks {
  std::int64_t window = 0;           // a row at position p sees keys in (p - window, p]: `window` of them, itself included
  std::int64_t chunk = 0;            // ... keys in [floor(p / chunk) * chunk, p]
  double soft_cap = 0.0;             // score = soft_cap * tanh(score / soft_cap), after the scale and before ALiBi; +-inf become +-soft_cap
  std::vector<double> alibi_slopes;  // [num_heads], finite: score += slope * (key position - query position) (Press et al. 2022, arXiv:2108.12409)
  std::vector<double> sinks;         // [num_heads]: a logit more in the softmax's sum that carries no value (Xiao et al. 2024, arXiv:2309.17453); -inf: none
};

// The first position that a row at `position` sees; the last is its own.
[[nodiscard]] std::int64_t first_visible(const AttentionMasks& masks, std::int64_t position);

// The published slopes: for a power of two n, 2^(-8 i / n) for i = 1 .. n; else those of the largest power of two below, then every
// other one of twice that power, from its first, until there are `num_heads`.
[[nodiscard]] std::vector<double> alibi_slopes(std::int64_t num_heads);

struct PagedAttention {
  kv::KvLayout layout;
  std::span<const std::byte> pool;  // layout.total_bytes(), as kv_cache.h reads it
  std::int32_t layer = 0;
  std::int32_t num_heads = 0;  // a multiple of layout.num_kv_heads; query head h reads KV head h / (num_heads / num_kv_heads)
  double scale = 0.0;          // usually head_dim^-0.5
  AttentionMasks masks = {};
  KvScales scales = {};  // of this layer
};

struct AttentionOutput {
  Matrix out;  // [query rows, num_heads * head_dim]
  Matrix lse;  // [query rows, num_heads], natural logarithm of the sum of e^score over the visible keys and the sink
};

// queries [query_start_loc.back(), num_heads * head_dim], already turned by rope. Row i of a sequence with q query rows and n cached
// tokens stands at position n - q + i and sees the keys at positions 0 .. n - q + i that its masks let through: always its own.
// A row that sees no key (padding: n = 0; or n - q + i < 0), or whose visible scores are all -inf: out 0, lse -inf (its sink, if it has
// one), never NaN. A sink that is NaN or +inf makes all of its head's rows NaN.
// A sequence with no query rows writes nothing, whatever its length. A NaN in the query or in a visible key, or a score of +inf, makes
// the head's whole row NaN; a NaN in a visible value its own dimension. Keys and values after a row's position, in other sequences or
// in unused blocks never matter, not even as NaN; neither do those before its window or chunk.
[[nodiscard]] AttentionOutput attention(const PagedAttention& problem, const AttentionBatch& batch, const Matrix& queries);

// The same for one head without a cache: query [D], keys and values [n, D], all visible; the query stands at the last key's position.
struct HeadOutput {
  std::vector<double> out;  // [D of values]
  double lse = 0.0;
};
struct ScoreRule {
  double scale = 0.0;
  double soft_cap = 0.0;     // 0: none
  double alibi_slope = 0.0;
  double sink = -std::numeric_limits<double>::infinity();
};
// The score of `key`, which lies `distance` positions before the query.
[[nodiscard]] double score(std::span<const double> query, std::span<const double> key, std::int64_t distance, const ScoreRule& rule);
[[nodiscard]] HeadOutput attend(std::span<const double> query, const Matrix& keys, const Matrix& values, const ScoreRule& rule);
[[nodiscard]] inline HeadOutput attend(std::span<const double> query, const Matrix& keys, const Matrix& values, double scale) { return attend(query, keys, values, ScoreRule{.scale = scale}); }

}  // namespace quire::reference
