#include "attention/plan.h"

#include <algorithm>

#include "base/check.h"

namespace quire::attention {

namespace {

// A decode entry whole, or a part for each partition if its partials still find room from `next_slot` on.
void add_decode(AttnWork entry, std::int32_t seq_len, std::int64_t num_slots, std::int64_t& next_slot, AttnPlan& plan) {
  const auto index = static_cast<std::int32_t>(plan.decode.size());
  const std::int32_t partitions = (seq_len + kPartitionTokens - 1) / kPartitionTokens;
  const std::int64_t need = std::int64_t{partitions} * entry.q_count;
  if (partitions < 2 || next_slot + need > num_slots) {
    plan.decode_parts.push_back(DecodePart{index, kAllPartitions});
  } else {
    entry.slot = static_cast<std::int32_t>(next_slot);
    next_slot += need;
    ++plan.num_split;
    for (std::int32_t k = 0; k < partitions; ++k) plan.decode_parts.push_back(DecodePart{index, k});
  }
  plan.decode.push_back(entry);
}

}  // namespace

void build_plan(std::span<const RowLengths> rows, const PlanRules& rules, AttnPlan& plan) {
  QUIRE_CHECK(rules.decode_query_len >= 1 && rules.decode_query_len <= kMaxDecodeQueryLen) << rules.decode_query_len;
  plan.decode.clear();
  plan.extend.clear();
  plan.prefill.clear();
  plan.decode_parts.clear();
  plan.num_split = 0;
  const std::int32_t tile = query_tile(rules.group);
  std::int64_t next_slot = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    QUIRE_CHECK_GE(rows[i].num_new, 1);
    const RowClass kind = row_class(rows[i].num_computed, rows[i].num_new, rules.decode_query_len);
    for (std::int32_t q = 0; q < rows[i].num_new; q += tile) {
      const AttnWork entry{static_cast<std::int32_t>(i), q, std::min(tile, rows[i].num_new - q), rows[i].table_row};
      switch (kind) {
        case RowClass::kDecode: add_decode(entry, rows[i].num_computed + q + entry.q_count, rules.partial_slots, next_slot, plan); break;
        case RowClass::kExtend: plan.extend.push_back(entry); break;
        case RowClass::kPrefill: plan.prefill.push_back(entry); break;
      }
    }
  }
}

// A row of n tokens gives ceil(n / tile) <= n / tile + 1 entries.
std::int64_t max_work(std::int64_t max_tokens, std::int64_t max_rows, std::int32_t group) { return std::min(max_tokens, max_tokens / query_tile(group) + max_rows); }

}  // namespace quire::attention
