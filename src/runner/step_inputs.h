// A StepPlan as flat arrays (host staging), in the order that kernels read them. Pure: no device, no model.
#pragma once
#include <cstdint>
#include <vector>

#include "attention/plan.h"
#include "ops/sample.h"
#include "scheduler/step_plan.h"

namespace quire::runner {

// What the runner remembers of a sequence between steps: the host's copy of its device state.
struct RowState {
  RequestId request;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t num_logprobs = -1, num_prompt_logprobs = -1;  // -1: not wanted
  std::vector<std::int32_t> blocks;                          // block table
};

struct StepInputs {
  std::vector<std::int32_t> row_of_token, positions;
  std::vector<std::int64_t> slots;
  std::vector<std::int32_t> query_start, seq_lens;
  attention::AttnPlan plan;
  std::vector<attention::AttnWork> work_prefill, work_all;
  std::vector<std::int32_t> work_counts;        // decode, prefill (with extend), all, decode parts
  std::vector<std::int32_t> token_rows;         // token of each row of logits
  std::vector<ops::LogitsRow> logits_rows;
  std::vector<std::int32_t> logits_begin;       // [rows + 1]: each plan row's part of logits_rows; scored rows first, the sampled one last
};

// `rows` is indexed by StateRow. Reuses the memory of `inputs`. QUIRE_CHECKs what a scheduler must guarantee: blocks cover every position,
// no state row twice.
void build_inputs(const StepPlan& plan, const std::vector<RowState>& rows, std::int32_t block_size, const attention::PlanRules& rules, StepInputs& inputs);

// Fills up to the size of a recorded step with rows and tokens that do nothing: token row none, slot none, position 0, length 0. `num_rows` 0: the
// rows stay the batch's own (attention runs outside the graph).
void pad_inputs(StepInputs& inputs, std::int32_t num_tokens, std::int32_t num_rows);

}  // namespace quire::runner
