// Decides each step: who runs, how many tokens, in which blocks. Owned by the engine thread alone; deterministic for a given
// sequence of calls; knows no device, no text, no sockets. Up to `depth` steps may be in flight: step_plan() may be called
// again before the results of the step before are applied, so that planning overlaps computing.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "scheduler/sampling_params.h"
#include "scheduler/scheduler_config.h"
#include "scheduler/step_plan.h"

namespace quire {

struct SequenceSpec {
  RequestId id;
  std::vector<TokenId> prompt;      // 1 .. max_model_len - 1 tokens
  std::shared_ptr<const SamplingParams> sampling;
  std::int32_t priority = 0;        // lower runs first (kPriority only)
  std::uint64_t arrival = 0;        // any monotone count; breaks priority ties
  std::string cache_namespace;      // prefix blocks are shared only within one namespace
};

enum class FinishReason : std::uint8_t { kStop, kLength, kAbort, kError };
inline constexpr FinishReason kFinishReasons[] = {FinishReason::kStop, FinishReason::kLength, FinishReason::kAbort, FinishReason::kError};

// "stop", "length", "abort", "error": the words of answers, logs and metrics.
[[nodiscard]] constexpr const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kAbort: return "abort";
    case FinishReason::kError: return "error";
  }
  return "?";
}

struct SequenceFinish {
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;   // the stop_token_ids member that ended it; nullopt for eos and length
  std::optional<Error> error;          // kError: why
};

// What apply() reports for one sequence.
struct SequenceOutput {
  RequestId id;
  std::optional<TokenId> token;        // a new output token (an end token is reported too, then finished)
  std::optional<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;  // this step's part, in prompt order
  std::optional<SequenceFinish> finish;
  std::int32_t num_cached_tokens = 0;  // prompt tokens served by the prefix cache at first scheduling
  bool first_scheduled = false;        // true on the first output after leaving the queue (for queue-time metrics)
};

struct SchedulerStats {
  std::int32_t num_running = 0, num_waiting = 0;
  std::int32_t num_blocks_total = 0, num_blocks_free = 0;  // free includes cached blocks nobody holds
  std::uint64_t num_preemptions = 0;
  std::uint64_t prefix_queries = 0, prefix_hits = 0;       // tokens
};

class Scheduler {
 public:
  // Hash of one block's tokens after a parent content (kv/policy/prefix_index.h). Any function gives right results.
  using BlockHash = std::function<std::uint64_t(std::uint64_t parent_serial, std::span<const TokenId> tokens)>;

  explicit Scheduler(const SchedulerConfig& config, BlockHash hash = {});  // no hash: a seeded one
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Refuses (kInvalidArgument) what could never run: empty prompt, prompt >= max_model_len, or more blocks at
  // prompt + 1 token than the pool has. Everything else waits.
  [[nodiscard]] Status add(SequenceSpec spec);
  // Ends a sequence at once (client gone, timeout, stop string found). Its blocks stay held until steps in flight that use
  // them retire. Unknown or finished ids are ignored. No output is reported for it afterwards.
  void abort(RequestId id);

  // The next step, or nullopt when nothing can run (idle, or `depth` steps are already in flight).
  [[nodiscard]] std::optional<StepPlan> step_plan();
  // Applies results in step order (QUIRE_CHECKed). Outputs of aborted or already finished sequences are dropped.
  [[nodiscard]] std::vector<SequenceOutput> apply(const StepResult& result);
  // A step failed as a whole (device error): every sequence in it ends with kError and this text.
  [[nodiscard]] std::vector<SequenceOutput> fail_step(std::uint64_t step_id, const std::string& why);

  [[nodiscard]] bool has_work() const;  // anything waiting, running or in flight
  [[nodiscard]] SchedulerStats stats() const;
  // Drops all cached prefix blocks that nobody holds; false when some are held.
  bool reset_prefix_cache();
  // free + held + cached = total, reference counts equal holders, no block in two places, each running sequence's invariants.
  [[nodiscard]] Status check_integrity() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
