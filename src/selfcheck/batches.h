// The batches that the self-check runs: every row class alone and mixed, at lengths around tiles, partitions and blocks, at the longest
// length, and in blocks at both ends of the pool. Pure: sizes and block ids only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/plan.h"
#include "kv/store/kv_layout.h"
#include "scheduler/scheduler_config.h"

namespace quire::selfcheck {

struct RowShape {
  std::int32_t num_computed = 0, num_new = 1;
};

// One shape of batch in several variants: the same graph, other lengths, other blocks.
struct Scenario {
  std::string name;
  std::vector<std::vector<RowShape>> variants;
};
// Cut to the limits, and below the largest recorded size (0: none) so that mixed batches meet their graphs; a scenario that no longer has
// rows is left out.
[[nodiscard]] std::vector<Scenario> make_scenarios(const SchedulerConfig& limits, std::int32_t largest_graph);

// Distinct block ids: both ends of the pool (its last and first block first) and some between. Few places, so that little of a pool that
// nobody has touched yet becomes real memory.
[[nodiscard]] std::vector<std::int32_t> usable_blocks(const kv::KvLayout& layout);

struct BatchRow {
  RowShape shape;
  attention::RowClass row_class = attention::RowClass::kDecode;
  std::int32_t state_row = 0;
  std::vector<std::int32_t> blocks;  // covers every position; where there is room one more follows that must never be read
};

struct Batch {
  std::vector<BatchRow> rows;
  std::vector<std::int32_t> own_blocks;  // written by the step, or guards: no other row has them
  std::int32_t num_tokens = 0;
};
// Rows' own blocks are distinct; the full blocks before them are shared among rows, so that a long context needs few. A row that finds no
// block of its own is left out.
[[nodiscard]] Batch place(const std::vector<RowShape>& shapes, std::int32_t variant, const std::vector<std::int32_t>& blocks, const SchedulerConfig& limits);

// One of a batch's own blocks: tokens [0, begin) are cached, [begin, end) the step's new ones; nobody writes or reads the others.
struct OwnBlock {
  std::int32_t block = 0, begin = 0, end = 0;
};
[[nodiscard]] std::vector<OwnBlock> own_blocks_of(const Batch& batch, std::int32_t block_size);

// Row class and place of a token of the step, padding included.
[[nodiscard]] const char* class_of(const Batch& batch, std::int64_t token);
[[nodiscard]] std::string place_of(const Batch& batch, std::int64_t token);

}  // namespace quire::selfcheck
