// What the attention kernels are told. Trivially copyable; every pointer is device memory.
#pragma once
#include <cstdint>

#include "ops/params.h"

namespace quire::attention {

// A run of query tokens of one batch row: the unit of work, times the KV heads.
struct AttnWork {
  std::int32_t row;        // batch row
  std::int32_t q_begin;    // first query token, counted from the row's first new token
  std::int32_t q_count;    // 1 .. query_tile(group)
  std::int32_t table_row;  // row of the block table: the sequence's state row, which keeps its table on the device
};

struct AttnParams {
  const float* q;                    // [tokens, num_heads * head_dim], rotated
  float* out;                        // [tokens, num_heads * head_dim]
  const std::int32_t* query_start;   // [rows + 1]: first token of each row
  const std::int32_t* seq_lens;      // [rows]: tokens in the cache, new ones included
  const std::int32_t* block_table;   // [state rows, block_table_stride]
  const AttnWork* work;              // the row classes' list
  const std::int32_t* num_work;      // [1]: entries in it; units beyond do nothing (a recorded launch keeps its geometry)
  std::int64_t block_table_stride;
  ops::KvPool kv;
  std::int32_t num_heads, head_dim, block_size;
  float scale;
};

// Scores and sums are taken over tiles of 64 cached tokens, tiles into partitions of 512, partitions in order: constants of the program,
// so that a row's bits depend on its own length alone (docs/NUMERICS.md, "Attention").
inline constexpr std::int32_t kTileTokens = 64;
inline constexpr std::int32_t kPartitionTokens = 512;
inline constexpr std::int32_t kMaxGroup = 32;     // query heads of one KV head
inline constexpr std::int32_t kMaxRows = 32;      // query rows (tokens x group) in one unit
inline constexpr std::int32_t kMaxHeadDim = 256;

// Query tokens in one unit for `group` query heads per KV head.
[[nodiscard]] constexpr std::int32_t query_tile(std::int32_t group) { return kMaxRows / group > 0 ? kMaxRows / group : 1; }

}  // namespace quire::attention
