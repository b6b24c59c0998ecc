// Decides one step: running sequences in order, then waiting ones, under one token budget.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/scheduler_impl.h"

namespace quire {

using scheduler::Phase;

std::optional<StepPlan> Scheduler::Impl::plan() {
  if (in_flight.size() >= static_cast<std::size_t>(config.depth)) return std::nullopt;
  Draft draft{.budget = config.max_num_batched_tokens, .rows = {}};
  draft.rows.reserve(running.size() + 8);
  plan_running(draft);
  if (!draft.preempted && !draft.short_of_blocks) plan_waiting(draft);
  if (draft.rows.empty()) {
    // With no step in flight nothing can change from outside, so an empty plan would be a stall for ever.
    QUIRE_CHECK(!in_flight.empty() || live.empty()) << running.size() << " running and " << waiting.size() << " waiting sequences cannot proceed; "
                                                    << pool.num_free() << " of " << pool.num_blocks() << " blocks free";
    return std::nullopt;
  }
  return commit(draft);
}

// Positions at which the sequence certainly ends are known before its tokens are: nothing is planned beyond them.
bool Scheduler::Impl::at_known_end(const Sequence& sequence) const {
  return sequence.num_outputs() >= sequence.sampling->max_tokens || sequence.length() >= config.max_model_len || sequence.length() > pool_tokens();
}

// How many tokens a sequence gets: the gap to its length within the budget; 0 when it has to sit this step out.
std::int32_t Scheduler::Impl::grant(const Sequence& sequence, std::int32_t num_computed, std::int32_t budget) const {
  if (at_known_end(sequence)) return 0;
  std::int32_t n = sequence.length() - num_computed;
  if (!config.enable_chunked_prefill) return n <= budget ? n : 0;
  if (config.long_prefill_token_threshold > 0) n = std::min(n, config.long_prefill_token_threshold);
  return std::min(n, budget);
}

void Scheduler::Impl::plan_running(Draft& draft) {
  for (std::size_t i = 0; i < running.size() && draft.budget > 0; ++i) {
    Sequence& sequence = *running[i];
    const std::int32_t n = grant(sequence, sequence.num_computed, draft.budget);
    if (n == 0) continue;
    const std::size_t first_new_block = sequence.blocks.size();
    if (!grow(draft, i, n)) continue;
    draft.rows.push_back(DraftRow{.sequence = &sequence, .num_new = n, .first_new_block = first_new_block, .enters = false});
    draft.budget -= n;
  }
}

// Blocks for the next num_new positions of running[position], at the cost of newer sequences if need be. `position`
// follows the sequence as victims before it leave the list. False: it sits this step out and keeps what it has.
bool Scheduler::Impl::grow(Draft& draft, std::size_t& position, std::int32_t num_new) {
  Sequence& sequence = *running[position];
  const std::int32_t missing = blocks_for(sequence.num_computed + num_new) - static_cast<std::int32_t>(sequence.blocks.size());
  if (missing <= 0) return true;
  if (draft.blocks_reserved) return false;
  while (!pool.allocate(missing, sequence.blocks)) {
    draft.short_of_blocks = true;
    if (blocks_are_coming_back()) {
      // Preempting more would free nothing sooner. What comes back is for this sequence first.
      draft.blocks_reserved = true;
      return false;
    }
    const std::size_t victim = choose_victim();
    if (victim == position) {
      // The newest waits with its blocks: whoever ranks before it may still take them. Alone, it would wait for ever,
      // but a sequence longer than the pool is ended in apply().
      QUIRE_CHECK_GT(running.size(), 1u) << "request " << sequence.id.value << " is alone and cannot get a block";
      return false;
    }
    preempt(draft, victim);
    if (victim < position) --position;
  }
  return true;
}

std::size_t Scheduler::Impl::choose_victim() const {
  if (config.policy == SchedulingPolicy::kFcfs) return running.size() - 1;
  const auto newest = std::ranges::max_element(running, {}, [](const Sequence* s) { return s->key; });
  return static_cast<std::size_t>(newest - running.begin());
}

// The victim keeps its tokens and returns to the front of the queue. Its blocks and row are free now, or, when a step in
// flight uses them, once that step retires.
void Scheduler::Impl::preempt(Draft& draft, std::size_t position) {
  Sequence& victim = *running[position];
  running.erase(running.begin() + static_cast<std::ptrdiff_t>(position));
  const auto planned = std::ranges::find(draft.rows, &victim, &DraftRow::sequence);
  if (planned != draft.rows.end()) {
    draft.budget += planned->num_new;
    draft.rows.erase(planned);
  }
  draft.preempted = true;
  ++num_preemptions;
  victim.phase = Phase::kWaiting;
  victim.num_computed = 0;
  if (config.policy == SchedulingPolicy::kFcfs) victim.key.order = --first_order;
  waiting.emplace(victim.key, &victim);
  ++num_releasing;
  settle(victim);
}

void Scheduler::Impl::plan_waiting(Draft& draft) {
  if (waiting.empty()) return;
  for (const Sequence* s : running) draft.promised_blocks += std::max(0, blocks_for(s->length()) - static_cast<std::int32_t>(s->blocks.size()));
  while (draft.budget > 0 && !waiting.empty() && running.size() < static_cast<std::size_t>(config.max_num_seqs)) {
    Sequence& head = *waiting.begin()->second;
    // A preempted sequence is uploaded with all its tokens, so its steps in flight come first. Nobody overtakes it.
    if (head.num_in_flight > 0 || free_rows.empty()) return;
    if (!admit(draft, head)) return;
  }
}

bool Scheduler::Impl::admit(Draft& draft, Sequence& sequence) {
  PrefixMatch match = match_prefix(sequence);
  const auto num_hits = static_cast<std::int32_t>(match.blocks.size());
  const std::int32_t num_cached = num_hits * config.block_size;
  const std::int32_t n = grant(sequence, num_cached, draft.budget);
  if (n == 0) return false;
  // Room for every token known is required, beside what prompts that are half run still need, though blocks are taken
  // chunk by chunk: a prompt that cannot end is not begun. A sequence that was preempted also leaves one block for each
  // running one, else it would be the next victim.
  const std::int32_t spare = sequence.was_admitted ? static_cast<std::int32_t>(running.size()) : 0;
  const std::int64_t needed = std::int64_t{blocks_for(sequence.length())} - num_hits + match.num_free + spare + draft.promised_blocks;
  if (needed > pool.num_free()) return false;

  const bool first_time = !std::exchange(sequence.was_admitted, true);
  if (first_time) {
    sequence.num_cached_tokens = std::min(num_cached, sequence.num_prompt);
    if (index != nullptr && !sequence.wants_prompt_scores()) {
      prefix_queries += static_cast<std::uint64_t>(sequence.num_known());
      prefix_hits += static_cast<std::uint64_t>(num_cached);
    }
  }
  for (const BlockId block : match.blocks) pool.share(block);
  sequence.blocks = std::move(match.blocks);
  QUIRE_CHECK(pool.allocate(blocks_for(num_cached + n) - num_hits, sequence.blocks));
  sequence.publishes = index != nullptr;
  sequence.published = match.content;
  sequence.num_published = num_hits;
  sequence.num_computed = num_cached;
  sequence.row = free_rows.back();
  free_rows.pop_back();
  waiting.erase(sequence.key);
  sequence.phase = Phase::kRunning;
  running.push_back(&sequence);
  draft.rows.push_back(DraftRow{.sequence = &sequence, .num_new = n, .first_new_block = 0, .enters = true});
  draft.budget -= n;
  draft.promised_blocks += blocks_for(sequence.length()) - static_cast<std::int32_t>(sequence.blocks.size());
  return true;
}

// The longest cached prefix in whole blocks that leaves at least one token to run (its logits are needed).
Scheduler::Impl::PrefixMatch Scheduler::Impl::match_prefix(const Sequence& sequence) const {
  PrefixMatch match{.blocks = {}, .content = sequence.root};
  if (index == nullptr || sequence.wants_prompt_scores()) return match;
  const auto size = static_cast<std::size_t>(config.block_size);
  const std::size_t most = (sequence.tokens.size() - 1) / size;
  for (std::size_t b = 0; b < most; ++b) {
    const auto hit = index->find(match.content, std::span(sequence.tokens).subspan(b * size, size));
    if (!hit) break;
    match.content = hit->content;
    match.blocks.push_back(hit->block);
    if (pool.holders(hit->block) == 0) ++match.num_free;
  }
  return match;
}

StepPlan Scheduler::Impl::commit(Draft& draft) {
  StepPlan plan;
  plan.step_id = ++last_step_id;
  plan.rows.reserve(draft.rows.size());
  InFlightStep step{.step_id = plan.step_id, .rows = {}};
  step.rows.reserve(draft.rows.size());
  // Decode rows (one token after context), then extend rows (several after context), then prefill rows (no context).
  std::ranges::stable_sort(draft.rows, {}, [](const DraftRow& r) { return r.sequence->num_computed == 0 ? 2 : r.num_new > 1 ? 1 : 0; });
  for (const DraftRow& row : draft.rows) commit_row(row, plan, step);
  in_flight.push_back(std::move(step));
  return plan;
}

void Scheduler::Impl::commit_row(const DraftRow& row, StepPlan& plan, InFlightStep& step) {
  Sequence& s = *row.sequence;
  if (row.enters) {
    QUIRE_CHECK_EQ(s.num_placeholders, 0);
    plan.uploads.push_back(StateUpload{.row = s.row, .request = s.id, .tokens = s.tokens, .num_prompt_tokens = s.num_prompt, .sampling = s.sampling});
  }
  if (s.blocks.size() > row.first_new_block) {
    const auto first = s.blocks.begin() + static_cast<std::ptrdiff_t>(row.first_new_block);
    plan.block_appends.push_back(BlockAppend{.row = s.row, .blocks = std::vector<BlockId>(first, s.blocks.end())});
  }
  const std::int32_t end = s.num_computed + row.num_new;
  const RowPlan out{.row = s.row,
                    .request = s.id,
                    .num_computed = s.num_computed,
                    .num_new = row.num_new,
                    .samples = end == s.length(),
                    .output_index = s.num_outputs(),
                    .scores_prompt = s.wants_prompt_scores() && s.num_computed + 1 < s.num_prompt && end >= s.next_scored};
  plan.rows.push_back(out);
  plan.num_tokens += row.num_new;
  step.rows.push_back(InFlightRow{.sequence = &s,
                                  .request = s.id,
                                  .num_computed = out.num_computed,
                                  .num_new = out.num_new,
                                  .samples = out.samples,
                                  .scores_prompt = out.scores_prompt});
  s.num_computed = end;
  s.num_placeholders += out.samples ? 1 : 0;
  ++s.num_in_flight;
}

}  // namespace quire
