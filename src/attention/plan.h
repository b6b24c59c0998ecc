// A step's rows as attention sees them: three lists with disjoint row ownership. Built on the host from lengths alone; run on the device.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "attention/params.h"

namespace quire::attention {

enum class RowClass : std::uint8_t { kDecode, kExtend, kPrefill };

// Decode: one new token. Extend: several new tokens after cached ones. Prefill: several new tokens and nothing cached.
[[nodiscard]] constexpr RowClass row_class(std::int32_t num_computed, std::int32_t num_new) {
  return num_new == 1 ? RowClass::kDecode : num_computed > 0 ? RowClass::kExtend : RowClass::kPrefill;
}

struct RowLengths {
  std::int32_t num_computed = 0, num_new = 0;
  std::int32_t table_row = 0;  // of the block table
};

// Work lists of one step. Every query token of every row is in exactly one entry of exactly one list.
struct AttnPlan {
  std::vector<AttnWork> decode, extend, prefill;
};

// Fills `plan` (reusing its memory) for rows in batch order; entries hold at most query_tile(group) tokens.
void build_plan(std::span<const RowLengths> rows, std::int32_t group, AttnPlan& plan);

// The most entries that a list can have in a step of these limits.
[[nodiscard]] std::int64_t max_work(std::int64_t max_tokens, std::int64_t max_rows, std::int32_t group);

}  // namespace quire::attention
