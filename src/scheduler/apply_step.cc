// Takes the results of one step: new tokens, ends, blocks that are now written, and what a retired step gives back.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/scheduler_impl.h"

namespace quire {

using scheduler::Phase;

Scheduler::Impl::InFlightStep Scheduler::Impl::take_oldest_step(std::uint64_t step_id) {
  QUIRE_CHECK(!in_flight.empty()) << "step " << step_id << " is not in flight";
  QUIRE_CHECK_EQ(in_flight.front().step_id, step_id) << "results come in step order";
  InFlightStep step = std::move(in_flight.front());
  in_flight.pop_front();
  return step;
}

std::vector<SequenceOutput> Scheduler::Impl::apply(const StepResult& result) {
  const InFlightStep step = take_oldest_step(result.step_id);
  QUIRE_CHECK_EQ(step.rows.size(), result.rows.size());
  std::vector<SequenceOutput> outputs;
  outputs.reserve(step.rows.size());
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const InFlightRow& row = step.rows[i];
    const RowResult& row_result = result.rows[i];
    Sequence& sequence = *row.sequence;
    QUIRE_CHECK_EQ(row.request.value, row_result.request.value);
    --sequence.num_in_flight;
    if (row.samples) --sequence.num_placeholders;
    if (row_result.failure && row_result.failure->code == ErrorCode::kInternal) distrust(sequence);
    if (sequence.phase != Phase::kLeaving) {
      SequenceOutput output = absorb(row, row_result);
      if (output.finish) leave(sequence);
      if (output.token || output.finish || output.first_scheduled || !output.prompt_logprobs.empty()) outputs.push_back(std::move(output));
    }
    publish(sequence, row.num_computed + row.num_new);
    settle(sequence);
  }
  return outputs;
}

std::vector<SequenceOutput> Scheduler::Impl::fail_step(std::uint64_t step_id, const std::string& why) {
  const InFlightStep step = take_oldest_step(step_id);
  std::vector<SequenceOutput> outputs;
  for (const InFlightRow& row : step.rows) {
    Sequence& sequence = *row.sequence;
    --sequence.num_in_flight;
    if (row.samples) --sequence.num_placeholders;
    // What this step should have written is missing, so later steps in flight complete no block of it either.
    sequence.publishes = false;
    if (sequence.phase != Phase::kLeaving) {
      outputs.push_back(SequenceOutput{.id = sequence.id,
                                       .token = {},
                                       .logprobs = {},
                                       .prompt_logprobs = {},
                                       .finish = SequenceFinish{.reason = FinishReason::kError, .stop_token = {}, .error = Error{ErrorCode::kInternal, why, {}}},
                                       .num_cached_tokens = sequence.num_cached_tokens,
                                       .first_scheduled = !sequence.was_reported});
      leave(sequence);
    }
    settle(sequence);
  }
  return outputs;
}

// One row's result into its sequence, which may be waiting again by now: a preempted sequence keeps what it computed.
SequenceOutput Scheduler::Impl::absorb(const InFlightRow& row, const RowResult& result) {
  Sequence& sequence = *row.sequence;
  SequenceOutput output;
  output.id = sequence.id;
  output.num_cached_tokens = sequence.num_cached_tokens;
  output.first_scheduled = !std::exchange(sequence.was_reported, true);
  if (result.failure) {
    output.finish = SequenceFinish{.reason = FinishReason::kError, .stop_token = {}, .error = result.failure};
    return output;
  }
  absorb_prompt_scores(row, result, output);
  QUIRE_CHECK_EQ(result.token.has_value(), row.samples) << "request " << sequence.id.value;
  if (!row.samples) return output;
  sequence.tokens.push_back(*result.token);
  output.token = result.token;
  output.logprobs = result.logprobs;
  output.finish = finish_of(sequence);
  return output;
}

// After preemption a prompt is run again, and what was reported before is not reported twice.
void Scheduler::Impl::absorb_prompt_scores(const InFlightRow& row, const RowResult& result, SequenceOutput& output) {
  Sequence& sequence = *row.sequence;
  //   positions of this chunk that have a score: [num_computed + 1, min(num_computed + num_new, num_prompt - 1)]
  const std::int32_t last = std::min(row.num_computed + row.num_new, sequence.num_prompt - 1);
  const std::int32_t expected = row.scores_prompt ? last - row.num_computed : 0;
  QUIRE_CHECK_EQ(result.prompt_logprobs.size(), static_cast<std::size_t>(expected)) << "request " << sequence.id.value;
  if (expected == 0 || last < sequence.next_scored) return;
  const std::int32_t skip = sequence.next_scored - (row.num_computed + 1);
  QUIRE_CHECK_GE(skip, 0);
  output.prompt_logprobs.assign(result.prompt_logprobs.begin() + skip, result.prompt_logprobs.end());
  sequence.next_scored = last + 1;
}

// Does the last token end the sequence?
std::optional<SequenceFinish> Scheduler::Impl::finish_of(const Sequence& sequence) const {
  const SamplingParams& p = *sequence.sampling;
  const TokenId token = sequence.tokens.back();
  const std::int32_t num_outputs = sequence.num_known() - sequence.num_prompt;
  if (num_outputs > p.min_tokens) {
    if (!p.ignore_eos && std::ranges::find(p.eos_token_ids, token) != p.eos_token_ids.end()) return SequenceFinish{};
    if (std::ranges::find(p.stop_token_ids, token) != p.stop_token_ids.end()) {
      return SequenceFinish{.reason = FinishReason::kStop, .stop_token = token, .error = {}};
    }
  }
  if (num_outputs >= p.max_tokens || sequence.num_known() >= config.max_model_len) {
    return SequenceFinish{.reason = FinishReason::kLength, .stop_token = {}, .error = {}};
  }
  // Its last token would need a position that not even the whole pool has. Said here, whatever else runs, so that the
  // end of a sequence never depends on its neighbours.
  if (sequence.num_known() > pool_tokens()) {
    return SequenceFinish{.reason = FinishReason::kError,
                          .stop_token = {},
                          .error = invalid("KV cache pool of " + std::to_string(config.num_blocks) + " blocks is too small for this sequence at " +
                                           std::to_string(sequence.num_known()) + " tokens; ask for fewer", "max_tokens")};
  }
  return std::nullopt;
}

// Enters the blocks that the retired steps have filled. Only positions whose tokens are known count: the extra row of a
// sequence that has ended may have written one more.
void Scheduler::Impl::publish(Sequence& sequence, std::int32_t num_written) {
  if (!sequence.publishes) return;
  const auto size = static_cast<std::size_t>(config.block_size);
  const std::int32_t num_full = std::min(num_written, sequence.num_known()) / config.block_size;
  while (sequence.num_published < num_full) {
    const auto b = static_cast<std::size_t>(sequence.num_published);
    const auto content = index->publish(sequence.published, std::span(sequence.tokens).subspan(b * size, size), sequence.blocks[b]);
    if (!content) {
      sequence.publishes = false;
      return;
    }
    sequence.published = *content;
    ++sequence.num_published;
  }
}

// A row gave unusable numbers, and no one knows since which block. None of its blocks may serve another request.
void Scheduler::Impl::distrust(Sequence& sequence) {
  sequence.publishes = false;
  if (index == nullptr) return;
  for (const BlockId block : sequence.blocks) index->forget(block);
}

}  // namespace quire
