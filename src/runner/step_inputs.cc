#include "runner/step_inputs.h"

#include "base/check.h"

namespace quire::runner {
namespace {

void clear(StepInputs& in) {
  in.row_of_token.clear();
  in.positions.clear();
  in.slots.clear();
  in.query_start.assign(1, 0);
  in.seq_lens.clear();
  in.work_prefill.clear();
  in.work_all.clear();
  in.token_rows.clear();
  in.logits_rows.clear();
  in.logits_begin.assign(1, 0);
}

void add_tokens(const RowPlan& row, const RowState& state, std::int32_t block_size, StepInputs& in) {
  for (std::int32_t p = row.num_computed; p < row.num_computed + row.num_new; ++p) {
    const auto block = static_cast<std::size_t>(p / block_size);
    QUIRE_CHECK_LT(block, state.blocks.size()) << "position " << p << " of row " << row.row.value << " has no block";
    in.row_of_token.push_back(row.row.value);
    in.positions.push_back(p);
    in.slots.push_back(std::int64_t{state.blocks[block]} * block_size + p % block_size);
  }
  in.query_start.push_back(in.query_start.back() + row.num_new);
  in.seq_lens.push_back(row.num_computed + row.num_new);
}

// [num_computed, end): the logits at position p predict token p + 1.
void add_logits(const RowPlan& row, const RowState& state, std::int32_t first_token, StepInputs& in) {
  const std::int32_t end = row.num_computed + row.num_new;
  if (row.scores_prompt) {
    for (std::int32_t p = row.num_computed + 1; p <= end && p < state.num_prompt_tokens; ++p) {
      in.token_rows.push_back(first_token + p - 1 - row.num_computed);
      in.logits_rows.push_back(ops::LogitsRow{row.row.value, p, 0, ops::LogitsUse::kScore});
    }
  }
  if (row.samples) {
    in.token_rows.push_back(first_token + row.num_new - 1);
    in.logits_rows.push_back(ops::LogitsRow{row.row.value, end, row.output_index, ops::LogitsUse::kSample});
  }
  in.logits_begin.push_back(static_cast<std::int32_t>(in.logits_rows.size()));
}

}  // namespace

void build_inputs(const StepPlan& plan, const std::vector<RowState>& rows, std::int32_t block_size, const attention::PlanRules& rules, StepInputs& in) {
  clear(in);
  std::vector<attention::RowLengths> lengths;
  lengths.reserve(plan.rows.size());
  for (const RowPlan& row : plan.rows) {
    const RowState& state = rows.at(static_cast<std::size_t>(row.row.value));
    QUIRE_CHECK(state.request == row.request) << "state row " << row.row.value << " belongs to another request";
    const std::int32_t first_token = in.query_start.back();
    add_tokens(row, state, block_size, in);
    add_logits(row, state, first_token, in);
    lengths.push_back({row.num_computed, row.num_new, row.row.value});
  }
  QUIRE_CHECK_EQ(in.query_start.back(), plan.num_tokens);
  attention::build_plan(lengths, rules, in.plan);
  in.work_prefill = in.plan.extend;
  in.work_prefill.insert(in.work_prefill.end(), in.plan.prefill.begin(), in.plan.prefill.end());
  in.work_all = in.plan.decode;
  in.work_all.insert(in.work_all.end(), in.work_prefill.begin(), in.work_prefill.end());
  in.work_counts = {static_cast<std::int32_t>(in.plan.decode.size()), static_cast<std::int32_t>(in.work_prefill.size()), static_cast<std::int32_t>(in.work_all.size()),
                    static_cast<std::int32_t>(in.plan.decode_parts.size())};
}

void pad_inputs(StepInputs& in, std::int32_t num_tokens, std::int32_t num_rows) {
  const auto tokens = static_cast<std::size_t>(num_tokens);
  QUIRE_CHECK_GE(tokens, in.positions.size());
  in.row_of_token.resize(tokens, StateRow::none().value);
  in.positions.resize(tokens, 0);
  in.slots.resize(tokens, SlotId::none().value);
  if (num_rows == 0) return;
  const auto rows = static_cast<std::size_t>(num_rows);
  QUIRE_CHECK_GE(rows, in.seq_lens.size());
  in.seq_lens.resize(rows, 0);
  in.query_start.resize(rows + 1, in.query_start.back());
}

}  // namespace quire::runner
