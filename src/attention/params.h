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
  std::int32_t slot = -1;  // first partial slot of an entry whose partitions are computed apart; partition k of token i is slot + k * q_count + i. -1: one unit computes it whole
};

// A unit of the decode kernel, times the KV heads: one partition of an entry of the decode list, or (kAllPartitions) all of it.
struct DecodePart {
  std::int32_t entry;
  std::int32_t partition;
};
inline constexpr std::int32_t kAllPartitions = -1;

// Masks beyond causality (reference/attention.h defines them); 0 or nullptr: off.
struct MaskParams {
  const float* alibi_slopes = nullptr;  // [num_heads]
  const float* sinks = nullptr;         // [num_heads]
  std::int32_t window = 0;              // keys that a row sees, its own included
  std::int32_t chunk = 0;
  float soft_cap = 0.0f;
};

// What decode units leave for the combine kernel.
struct Partials {
  float* acc = nullptr;    // [slots, num_heads, head_dim], not divided by the sum
  float* stats = nullptr;  // [slots, num_heads, 2]: maximum, sum
};

struct AttnParams {
  const float* q;                    // [tokens, num_heads * head_dim], rotated
  float* out;                        // [tokens, num_heads * head_dim]
  const std::int32_t* query_start;   // [rows + 1]: first token of each row
  const std::int32_t* seq_lens;      // [rows]: tokens in the cache, new ones included
  const std::int32_t* block_table;   // [state rows, block_table_stride]
  const AttnWork* work;              // the row classes' list
  const DecodePart* parts;           // the decode kernel's units
  const std::int32_t* num_work;      // [1]: entries in the list that is launched for; at most what is launched for (a recorded launch keeps its geometry)
  std::int64_t launch_units;         // work units of the launch: entries times KV heads
  std::int64_t block_table_stride;
  ops::KvPool kv;
  std::int32_t num_heads, head_dim, block_size;
  float scale;
  std::int32_t decode_query_len;     // rows of at most so many new tokens are decode rows
  MaskParams masks;
  Partials partials;
};

// Scores and sums are taken over tiles of 64 cached tokens, tiles into partitions of 512, partitions in order: constants of the program,
// so that a row's bits depend on its own length alone (docs/NUMERICS.md, "Attention").
inline constexpr std::int32_t kTileTokens = 64;
inline constexpr std::int32_t kPartitionTokens = 512;
inline constexpr std::int32_t kMaxGroup = 32;     // query heads of one KV head
inline constexpr std::int32_t kMaxRows = 32;      // query rows (tokens x group) in one unit
inline constexpr std::int32_t kMaxHeadDim = 256;
inline constexpr std::int32_t kMaxDecodeQueryLen = 8;

// Query tokens in one unit for `group` query heads per KV head.
[[nodiscard]] constexpr std::int32_t query_tile(std::int32_t group) { return kMaxRows / group > 0 ? kMaxRows / group : 1; }

}  // namespace quire::attention
