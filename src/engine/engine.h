// Request lifecycle and the step loop. One engine thread owns all scheduling state; every public method may be called from
// any thread. The only place that joins scheduler and runner. Knows token ids, not text; knows no sockets.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/event_queue.h"
#include "engine/request.h"
#include "scheduler/scheduler.h"
#include "scheduler/step_plan.h"

namespace quire::engine {

class Metrics;

// Whose seed a request samples with: the one in its SamplingParams, or one that the engine draws.
enum class SeedSource : unsigned char { kRequest, kEngine };

// What the engine needs of a runner; runner::ModelRunner implements it, tests use fakes.
// submit() enqueues a step; collect() waits for the oldest submitted step. At most SchedulerConfig::depth steps are between them.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  virtual void submit(const StepPlan& plan) = 0;
  // An error fails that step's requests; the executor must stay usable for later steps or return errors for each.
  [[nodiscard]] virtual Result<StepResult> collect() = 0;
};

struct EngineConfig {
  SchedulerConfig scheduler;
  std::int32_t max_queue = 4096;       // sequences waiting or running; one more is refused (kResourceExhausted)
  std::uint64_t seed = 0;              // draws seeds for requests that have none (SamplingParams::seed is then set by submit)
  double request_timeout_seconds = 0;  // 0: none; ends a request with kAbort and an error that names the limit
  bool log_requests = false;           // one line per ended request at info level (else debug; errors always warn)
  double stats_log_seconds = 10;       // period of the statistics line while there is work; 0: off
};

// Read by health and load routes; lock-free copies of counters.
struct EngineStatus {
  enum class State : std::uint8_t { kStarting, kReady, kDraining, kStopped, kFailed } state = State::kStarting;
  // What the engine thread does now, and for how long: names the place when it is stuck.
  enum class Stage : std::uint8_t { kIdle, kScheduling, kSubmitting, kExecuting, kDelivering } stage = Stage::kIdle;
  std::int64_t stage_ms = 0;
  std::uint64_t steps_done = 0;
  std::int64_t ms_since_step = 0;    // since the last step finished (or work arrived after idling); 0 while idle
  std::int64_t step_running_ms = 0;  // age of the step in flight, 0 when none
  std::int32_t num_running = 0, num_waiting = 0;
  double kv_usage = 0.0;  // held blocks / all blocks
  std::string failure;    // kFailed: why

  // Waiting and running together. Add up the numbers of one reading only: a sequence moves from one to the other between two.
  [[nodiscard]] std::int32_t num_sequences() const { return num_running + num_waiting; }
};

class Engine {
 public:
  Engine(const EngineConfig& config, std::unique_ptr<StepExecutor> executor, std::shared_ptr<Metrics> metrics);
  ~Engine();  // stop() with no grace
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start();  // starts the engine thread

  // Admits a request: its events arrive on `events`, which must outlive the request (shared). Errors: kInvalidArgument (never
  // could run), kResourceExhausted (queue full), kUnavailable (starting, draining, stopped, failed).
  [[nodiscard]] Result<RequestId> submit(GenerateRequest request, SeedSource seed, std::shared_ptr<EventQueue> events);
  // Unknown ids are ignored, and so is every call for an id but the first of these three.
  // The client is gone: ends with FinishEvent kAbort.
  void cancel(RequestId id);
  // The caller, who alone sees text, has found the end of the answer (a stop string): ends with FinishEvent kStop. After the
  // FinishEvent kLength of a request whose end the caller knows (EndKnownBy): it is counted as kStop.
  void finish(RequestId id);
  // Only after such a FinishEvent: the text held no stop string, it is counted as kLength. cancel() means the same then.
  void settle(RequestId id);

  // Refuses new requests, lets running ones end for at most `grace`, aborts the rest, stops the thread (state kStopped).
  // Idempotent; a second call may shorten the grace. Returns at most a second after the grace: when a step still runs then, every
  // request has its FinishEvent, the state stays kDraining until the step returns, and the destructor waits for that.
  void stop(std::chrono::milliseconds grace);

  [[nodiscard]] std::int32_t max_queue() const;  // more than this can never be in the queue at once
  [[nodiscard]] EngineStatus status() const;
  [[nodiscard]] SchedulerStats stats() const;  // of the last finished step
  [[nodiscard]] bool reset_prefix_cache(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::engine
