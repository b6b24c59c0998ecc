// One request inside the scheduler: its tokens, how far it is computed, and what it holds. Owned by Scheduler::Impl.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "kv/policy/prefix_index.h"
#include "scheduler/sampling_params.h"

namespace quire::scheduler {

enum class Phase : std::uint8_t {
  kWaiting,  // not in the running list; after preemption it may still hold blocks until its steps retire
  kRunning,  // has a state row and may be planned
  kLeaving,  // finished or aborted; lives on only until its steps in flight retire
};

// Place in the waiting queue: smallest first.
struct QueueKey {
  std::int32_t priority = 0;  // kPriority only
  std::uint64_t arrival = 0;  // kPriority only
  std::int64_t order = 0;     // order of add(); under kFcfs a preempted sequence gets one before all others
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

//   tokens:  [0 ..... num_prompt ..... tokens.size())  then num_placeholders sampled tokens that are not known yet
//   blocks cover positions [0, num_computed); steps in flight included
struct Sequence {
  RequestId id;
  std::vector<TokenId> tokens;  // known: prompt, then outputs
  std::int32_t num_prompt = 0;
  std::shared_ptr<const SamplingParams> sampling;
  QueueKey key;
  Phase phase = Phase::kWaiting;

  std::int32_t num_computed = 0;      // positions planned so far
  std::int32_t num_placeholders = 0;  // sampled by steps in flight
  std::int32_t num_in_flight = 0;     // rows in steps that are not applied
  StateRow row;
  std::vector<BlockId> blocks;

  kv::Content root;       // empty prefix of the namespace; opened at add, closed at the end
  kv::Content published;  // content of the first num_published blocks
  std::int32_t num_published = 0;
  bool publishes = false;  // false: caching off, the chain is broken, or the content is not to be trusted

  std::int32_t next_scored = 1;  // first prompt position whose log-probability is not reported
  std::int32_t num_cached_tokens = 0;
  bool was_admitted = false;  // left the queue at least once
  bool was_reported = false;  // an output was reported

  [[nodiscard]] std::int32_t num_known() const { return static_cast<std::int32_t>(tokens.size()); }
  [[nodiscard]] std::int32_t length() const { return num_known() + num_placeholders; }
  [[nodiscard]] std::int32_t num_outputs() const { return length() - num_prompt; }  // placeholders included
  [[nodiscard]] bool holds_anything() const { return !row.is_none() || !blocks.empty(); }
  [[nodiscard]] bool wants_prompt_scores() const { return sampling->prompt_logprobs.has_value() && next_scored < num_prompt; }
};

}  // namespace quire::scheduler
