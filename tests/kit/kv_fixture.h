// Random ragged attention batches over a paged pool: permuted block tables, NaN in every cell that no kernel may read, and the cached
// tokens kept beside it as plain matrices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "kv/store/kv_layout.h"
#include "reference/attention.h"
#include "reference/matrix.h"

namespace quire::test {

struct KvCase {
  DType dtype = DType::kF32;  // of the cache, and of queries (FP8: float32)
  std::int32_t num_layers = 2, layer = 1;  // cells of the other layers stay NaN
  std::int32_t num_heads = 4, num_kv_heads = 2, head_dim = 64, block_size = 16;
  kv::CellOrder key_order = kv::CellOrder::kDimMajor, value_order = kv::CellOrder::kTokenMajor;
  std::vector<std::int32_t> query_lens, seq_lens;  // one pair per sequence, seq_len >= query_len; both 0: a sequence without rows
  std::int32_t spare_blocks = 3;                   // more than the sequences need, all NaN; at least 1
  std::int32_t padding_rows = 0;                   // rows after the batch, each a sequence of length 0 with one row and slot none
  double magnitude = 1.0;                          // standard deviation of queries, keys and values
};

// Lengths for `num_sequences` sequences: decodes (1 row), whole prompts, chunks with cached prefix, an empty sequence now and then.
void randomise_lengths(KvCase& c, std::mt19937_64& rng, std::int32_t num_sequences, std::int32_t max_seq_len);

struct KvBatch {
  KvCase shape;
  kv::KvLayout layout;
  std::vector<std::byte> pool;      // layout.total_bytes(); NaN wherever no token was written
  reference::AttentionBatch batch;  // padding rows included; tables have spare entries, which name NaN blocks
  // FP8: random scales per head, [num_layers, 2, num_kv_heads] as the engine has them, NaN for the other layers; else empty.
  std::vector<float> kv_scales;
  reference::KvScales scales;       // those of `shape.layer`
  reference::Matrix queries;        // [rows, num_heads * head_dim], values of `dtype`
  // One row per cached token, sequence after sequence in position order; values of `dtype` (times their scale).
  reference::Matrix keys, values;         // [tokens, num_kv_heads * head_dim]
  std::vector<SlotId> slots;              // [tokens]
  std::vector<std::int32_t> token_start;  // [sequences + 1], first row of each sequence in keys, values and slots

  // The rows of this step, in query order; padding rows are zero with slot none.
  [[nodiscard]] reference::Matrix new_keys() const;
  [[nodiscard]] reference::Matrix new_values() const;
  [[nodiscard]] std::vector<SlotId> new_slots() const;
  [[nodiscard]] std::vector<std::int64_t> positions() const;         // of the query rows; 0 for padding
  [[nodiscard]] std::int32_t max_blocks() const;                     // columns of a rectangular block table
  [[nodiscard]] std::vector<std::int32_t> flat_block_table() const;  // [sequences, max_blocks()]
  // The twin's question over this pool; lives as long as the batch.
  [[nodiscard]] reference::PagedAttention question(double scale) const;
};

enum class Cached : std::uint8_t { kEverything, kHistoryOnly };  // history: without this step's own tokens

// Deterministic in (case, rng). Every block is used by one sequence; ids are a random permutation.
[[nodiscard]] KvBatch make_kv_batch(const KvCase& c, std::mt19937_64& rng, Cached cached = Cached::kEverything);

}  // namespace quire::test
