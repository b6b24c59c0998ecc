// A step's rows as attention sees them: three lists with disjoint row ownership. Built on the host from lengths alone; run on the device.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "attention/params.h"
#include "attention/row_class.h"

namespace quire::attention {

struct RowLengths {
  std::int32_t num_computed = 0, num_new = 0;
  std::int32_t table_row = 0;  // of the block table
};

// Work lists of one step. Every query token of every row is in exactly one entry of exactly one list.
struct AttnPlan {
  std::vector<AttnWork> decode, extend, prefill;
  std::vector<DecodePart> decode_parts;  // every partition of every decode entry is in exactly one
  std::int32_t num_split = 0;            // decode entries with slots: whether there is anything to combine
};

struct PlanRules {
  std::int32_t group = 1;             // query heads per KV head
  std::int32_t decode_query_len = 1;  // 1 .. kMaxDecodeQueryLen
  std::int64_t partial_slots = 0;     // room for partials (workspace.h); 0: decode entries stay whole
};

// Fills `plan` (reusing its memory) for rows in batch order; entries hold at most query_tile(group) tokens. Decode entries of two
// partitions or more are split while there are slots; how an entry is computed never changes its bits.
void build_plan(std::span<const RowLengths> rows, const PlanRules& rules, AttnPlan& plan);

// The most entries that a list can have in a step of these limits.
[[nodiscard]] std::int64_t max_work(std::int64_t max_tokens, std::int64_t max_rows, std::int32_t group);

}  // namespace quire::attention
