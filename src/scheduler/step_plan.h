// The two values that cross between scheduler and runner: StepPlan down, StepResult up. Plain data, no device types; every
// rank of a model runs the same StepPlan.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "scheduler/sampling_params.h"

namespace quire {

// A sequence that enters the device-resident state (first time, or again after preemption).
struct StateUpload {
  StateRow row;
  RequestId request;
  std::vector<TokenId> tokens;       // every token known so far: prompt, then outputs
  std::int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams> sampling;
};

// Blocks appended to a row's block table by this step, in order. A StateUpload for the same row empties the table first.
struct BlockAppend {
  StateRow row;
  std::vector<BlockId> blocks;
};

// One sequence's share of a step: positions [num_computed, num_computed + num_new) are run.
//   [0 ........ num_computed)[num_computed .... num_computed + num_new)
//    in the KV cache already   written by this step, then read back
struct RowPlan {
  StateRow row;
  RequestId request;
  std::int32_t num_computed = 0;
  std::int32_t num_new = 0;        // >= 1
  bool samples = false;            // the last position yields a token (false: a prefill chunk that is not the last)
  std::int32_t output_index = 0;   // index of that token among the sequence's outputs (Philox counter, min_tokens)
  bool scores_prompt = false;      // prompt log-probabilities of this chunk's positions are wanted
};

struct StepPlan {
  std::uint64_t step_id = 0;       // 1, 2, 3, ... without gaps
  std::vector<StateUpload> uploads;
  std::vector<BlockAppend> block_appends;
  std::vector<RowPlan> rows;       // decode rows (one new token that has context) first; each state row at most once
  std::int32_t num_tokens = 0;     // sum of num_new
};

// Log-probability of one token beside the most likely ones. Ranks count from 1 (the argmax).
struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0.0f;
  std::int32_t rank = 0;
  std::vector<std::pair<TokenId, float>> top;  // descending; ties by token id
};

struct RowResult {
  RequestId request;
  std::optional<TokenId> token;               // set iff RowPlan::samples and the row did not fail
  std::optional<TokenLogprobs> logprobs;      // set when the request asked for them
  // One entry for each prompt position p in [num_computed + 1, num_computed + num_new] that is inside the prompt:
  // the log-probability of token p given tokens before it.
  std::vector<TokenLogprobs> prompt_logprobs;
  // Set: the request fails alone. kInternal: this row's logits are unusable (NaN), and nobody knows since when. Another code: the
  // request's own parameters leave no token; what it computed is good.
  std::optional<Error> failure;
};

struct StepResult {
  std::uint64_t step_id = 0;
  std::vector<RowResult> rows;                // same order as StepPlan::rows
};

}  // namespace quire
