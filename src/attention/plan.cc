#include "attention/plan.h"

#include <algorithm>

#include "base/check.h"

namespace quire::attention {

void build_plan(std::span<const RowLengths> rows, std::int32_t group, AttnPlan& plan) {
  plan.decode.clear();
  plan.extend.clear();
  plan.prefill.clear();
  const std::int32_t tile = query_tile(group);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    QUIRE_CHECK_GE(rows[i].num_new, 1);
    const auto row = static_cast<std::int32_t>(i);
    switch (row_class(rows[i].num_computed, rows[i].num_new)) {
      case RowClass::kDecode: plan.decode.push_back(AttnWork{row, 0, 1, rows[i].table_row}); break;
      case RowClass::kExtend:
        for (std::int32_t q = 0; q < rows[i].num_new; q += tile) plan.extend.push_back(AttnWork{row, q, std::min(tile, rows[i].num_new - q), rows[i].table_row});
        break;
      case RowClass::kPrefill:
        for (std::int32_t q = 0; q < rows[i].num_new; q += tile) plan.prefill.push_back(AttnWork{row, q, std::min(tile, rows[i].num_new - q), rows[i].table_row});
        break;
    }
  }
}

// A row of n tokens gives ceil(n / tile) <= n / tile + 1 entries.
std::int64_t max_work(std::int64_t max_tokens, std::int64_t max_rows, std::int32_t group) { return std::min(max_tokens, max_tokens / query_tile(group) + max_rows); }

}  // namespace quire::attention
