// Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1) over a paged KV cache: causal, with grouped
// query heads (Ainslie et al. 2023, arXiv:2305.13245). Defines the edge cases for every backend.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/store/kv_layout.h"
#include "reference/matrix.h"

namespace quire::reference {

struct AttentionBatch {
  std::vector<std::int32_t> query_start_loc;            // [sequences + 1], rising from 0; sequence s owns query rows [start[s], start[s + 1])
  std::vector<std::int32_t> seq_lens;                   // [sequences], tokens in the cache, the new ones included
  std::vector<std::vector<std::int32_t>> block_tables;  // [sequences], at least ceil(seq_len / block_size) block ids; more are not read
};

struct PagedAttention {
  kv::KvLayout layout;
  std::span<const std::byte> pool;  // layout.total_bytes(), as kv_cache.h reads it
  std::int32_t layer = 0;
  std::int32_t num_heads = 0;  // a multiple of layout.num_kv_heads; query head h reads KV head h / (num_heads / num_kv_heads)
  double scale = 0.0;          // usually head_dim^-0.5
};

struct AttentionOutput {
  Matrix out;  // [query rows, num_heads * head_dim]
  Matrix lse;  // [query rows, num_heads], natural logarithm of the sum of e^score over the visible keys
};

// queries [query_start_loc.back(), num_heads * head_dim], already turned by rope. Row i of a sequence with q query rows and n cached
// tokens stands at position n - q + i and sees the keys at positions 0 .. n - q + i.
// A row that sees no key (padding: n = 0; or n - q + i < 0), or whose visible scores are all -inf: out 0, lse -inf, never NaN.
// A sequence with no query rows writes nothing, whatever its length. A NaN in the query or in a visible key, or a score of +inf, makes
// the head's whole row NaN; a NaN in a visible value its own dimension. Keys and values after a row's position, in other sequences or
// in unused blocks never matter, not even as NaN.
[[nodiscard]] AttentionOutput attention(const PagedAttention& problem, const AttentionBatch& batch, const Matrix& queries);

// The same for one head without a cache: query [D], keys and values [n, D], all visible.
struct HeadOutput {
  std::vector<double> out;  // [D of values]
  double lse = 0.0;
};
[[nodiscard]] HeadOutput attend(std::span<const double> query, const Matrix& keys, const Matrix& values, double scale);

}  // namespace quire::reference
