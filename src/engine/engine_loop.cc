#include "engine/engine_loop.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/log.h"

namespace quire::engine {
namespace {

using Stage = EngineStatus::Stage;

// Between two steps at most this many commands are handled, so that a flood of them cannot starve running requests.
constexpr std::size_t kMaxCommandsPerStep = 256;
constexpr int kMaxErrorsInARow = 3;

Error shutdown_error() { return Error{ErrorCode::kUnavailable, "the server shut down before the request was finished", {}}; }
Error internal_error(std::string why) { return Error{ErrorCode::kInternal, std::move(why), {}}; }

// Leaves prompt and sampling in the command.
OpenRequest open_request(SubmitCommand& command, double server_timeout) {
  GenerateRequest& request = command.request;
  OpenRequest out;
  out.events = std::move(command.events);
  out.samples = std::move(request.samples);
  out.client_id = std::move(request.client_id);
  out.num_prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  out.max_tokens = request.sampling.max_tokens;
  out.wants_prompt_logprobs = request.sampling.prompt_logprobs.has_value();
  out.timeout_seconds = server_timeout;
  out.end_known_by = request.end_known_by;
  out.arrival = command.arrival;
  return out;
}

}  // namespace

EngineLoop::EngineLoop(const EngineConfig& config, std::unique_ptr<StepExecutor> executor, std::shared_ptr<Metrics> metrics, Inbox& inbox,
                       StatusBoard& board)
    : config_(config),
      executor_(std::move(executor)),
      metrics_(metrics),
      inbox_(inbox),
      engine_side_(inbox.engine_side()),
      board_(board),
      scheduler_(config.scheduler),
      stats_line_(config.stats_log_seconds),
      ledger_(std::move(metrics), config.log_requests ? RequestLog::kInfo : RequestLog::kDebug),
      stats_(scheduler_.stats()) {}

void EngineLoop::run() {
  for (;;) {
    board_.enter(Stage::kScheduling, Clock::now());
    take_commands();
    expire();
    if (engine_side_.should_exit(Clock::now())) break;
    submit_steps();
    const bool active = !in_flight_.empty();
    if (active) collect_step();
    publish();
    if (active) continue;
    // step_plan() promises a step whenever a request is left and none is in flight: sleeping on one would be for ever.
    QUIRE_CHECK_EQ(num_open_requests(), std::size_t{0}) << "requests are left and no step is planned";
    board_.enter(Stage::kIdle, Clock::now());
    engine_side_.wait(stats_line_.due());
  }
  leave();
}

void EngineLoop::take_commands() {
  for (Command& command : engine_side_.take(kMaxCommandsPerStep)) {
    std::visit([this](auto& c) { handle(c); }, command);
  }
}

void EngineLoop::handle(SubmitCommand& command) {
  const RequestId id = command.id;
  OpenRequest opened = open_request(command, config_.request_timeout_seconds);
  {
    const std::scoped_lock lock(ledger_mutex_);
    ledger_.open(id, std::move(opened));
    if (failed_) return ledger_.finish(id, FinishReason::kError, internal_error("the engine has failed: " + inbox_.failure()), Clock::now());
  }
  SequenceSpec spec{.id = id,
                    .prompt = std::move(command.request.prompt),
                    .sampling = std::make_shared<const SamplingParams>(std::move(command.request.sampling)),
                    .priority = command.request.priority,
                    .arrival = id.value,
                    .cache_namespace = std::move(command.request.cache_namespace)};
  if (Status added = scheduler_.add(std::move(spec)); !added.ok()) {
    const std::scoped_lock lock(ledger_mutex_);
    ledger_.finish(id, FinishReason::kError, added.error(), Clock::now());
  }
}

void EngineLoop::handle(const EndCommand& command) {
  scheduler_.abort(command.id);
  const std::scoped_lock lock(ledger_mutex_);
  ledger_.finish(command.id, command.reason, std::nullopt, Clock::now());
}

void EngineLoop::handle(const ResetPrefixCacheCommand& command) { command.done->set_value(scheduler_.reset_prefix_cache()); }

void EngineLoop::expire() {
  std::vector<RequestId> expired;
  {
    const std::scoped_lock lock(ledger_mutex_);
    expired = ledger_.finish_expired(Clock::now());
  }
  for (const RequestId id : expired) scheduler_.abort(id);
}

void EngineLoop::submit_steps() {
  while (in_flight_.size() < static_cast<std::size_t>(config_.scheduler.depth)) {
    const std::optional<StepPlan> plan = scheduler_.step_plan();
    if (!plan) return;
    const Clock::time_point now = Clock::now();
    StepInFlight step{.step_id = plan->step_id, .num_tokens = plan->num_tokens, .num_prompt_tokens = 0, .started = now};
    for (const RowPlan& row : plan->rows) {
      if (row.output_index == 0) step.num_prompt_tokens += row.num_new;
    }
    {
      const std::scoped_lock lock(ledger_mutex_);
      for (const StateUpload& upload : plan->uploads) ledger_.mark_scheduled(upload.request, now);
    }
    // Before the call: an executor that blocks here must show as a step that does not end.
    if (in_flight_.empty()) board_.step_started(now);
    board_.enter(Stage::kSubmitting, now);
    executor_->submit(*plan);
    board_.enter(Stage::kScheduling, Clock::now());
    in_flight_.push_back(step);
  }
}

void EngineLoop::collect_step() {
  board_.enter(Stage::kExecuting, Clock::now());
  const Result<StepResult> result = executor_->collect();
  const Clock::time_point now = Clock::now();
  board_.enter(Stage::kDelivering, now);
  const StepInFlight step = in_flight_.front();
  in_flight_.pop_front();
  board_.step_finished(now);
  if (in_flight_.empty()) {
    board_.no_step();
  } else {
    in_flight_.front().started = now;  // it waited for this one until now
    board_.step_started(now);
  }
  metrics_->observe_step(step.num_tokens, std::chrono::duration<double>(now - step.started).count());

  errors_in_a_row_ = result.ok() ? 0 : errors_in_a_row_ + 1;
  if (!result.ok()) QUIRE_LOG_ERROR("step {} failed ({} in a row): {}", step.step_id, errors_in_a_row_, result.error().message);
  std::vector<SequenceOutput> outputs =
      result.ok() ? scheduler_.apply(result.value()) : scheduler_.fail_step(step.step_id, "the step failed: " + result.error().message);
  std::int64_t generated = 0;
  {
    const std::scoped_lock lock(ledger_mutex_);
    for (SequenceOutput& output : outputs) {
      const RequestId id = output.id;
      generated += output.token ? 1 : 0;
      if (!ledger_.deliver(std::move(output), now)) scheduler_.abort(id);
    }
  }
  stats_line_.add(step.num_prompt_tokens, generated, now);
  if (errors_in_a_row_ >= kMaxErrorsInARow && !failed_) {
    fail_engine(std::to_string(errors_in_a_row_) + " steps in a row failed, the last with: " + result.error().message);
  }
}

void EngineLoop::fail_engine(const std::string& why) {
  failed_ = true;
  QUIRE_LOG_ERROR("the engine has failed: {}", why);
  engine_side_.set_failed(why);
  const std::scoped_lock lock(ledger_mutex_);
  for (const RequestId id : ledger_.ids()) {
    scheduler_.abort(id);
    ledger_.finish(id, FinishReason::kError, internal_error("the engine has failed: " + why), Clock::now());
  }
}

// Numbers first, then free places in the queue, then events: whoever sees a FinishEvent sees its effects too.
void EngineLoop::publish() {
  const SchedulerStats stats = scheduler_.stats();
  {
    const std::scoped_lock lock(stats_mutex_);
    stats_ = stats;
  }
  std::vector<EndedRequest> ended;
  {
    const std::scoped_lock lock(ledger_mutex_);
    ended = ledger_.take_ended();
  }
  engine_side_.release(ended);
  const std::int32_t waiting = std::max(inbox_.num_open() - stats.num_running, 0);
  const std::int32_t held = stats.num_blocks_total - stats.num_blocks_free;
  board_.set_load(stats.num_running, waiting, stats.num_blocks_total > 0 ? static_cast<double>(held) / stats.num_blocks_total : 0.0);
  metrics_->observe_scheduler(stats, stats.num_running, waiting);
  if (const auto line = stats_line_.take(stats, stats.num_running, waiting, Clock::now())) QUIRE_LOG_INFO("{}", *line);
  const std::scoped_lock lock(ledger_mutex_);
  ledger_.push_events();
}

std::size_t EngineLoop::num_open_requests() {
  const std::scoped_lock lock(ledger_mutex_);
  return ledger_.size();
}

void EngineLoop::end_all_requests() {
  // A submit that the engine thread has not taken yet was accepted all the same.
  std::vector<Command> commands = engine_side_.take(std::numeric_limits<std::size_t>::max());
  const std::scoped_lock lock(ledger_mutex_);
  for (Command& command : commands) {
    if (auto* submit = std::get_if<SubmitCommand>(&command)) {
      ledger_.open(submit->id, open_request(*submit, config_.request_timeout_seconds));
    } else if (const auto* end = std::get_if<EndCommand>(&command)) {
      ledger_.finish(end->id, end->reason, std::nullopt, Clock::now());
      ended_at_stop_.push_back(end->id);
    } else if (auto* reset = std::get_if<ResetPrefixCacheCommand>(&command)) {
      reset->done->set_value(false);
    }
  }
  for (const RequestId id : ledger_.ids()) {
    ledger_.finish(id, FinishReason::kAbort, shutdown_error(), Clock::now());
    ended_at_stop_.push_back(id);
  }
  ledger_.settle_all();
  engine_side_.release(ledger_.take_ended());
  ledger_.push_events();
}

void EngineLoop::leave() {
  end_all_requests();
  std::vector<RequestId> ended;
  {
    const std::scoped_lock lock(ledger_mutex_);
    ended = std::exchange(ended_at_stop_, {});
  }
  for (const RequestId id : ended) scheduler_.abort(id);
  while (!in_flight_.empty()) collect_step();
  publish();
  board_.enter(Stage::kIdle, Clock::now());
  engine_side_.set_exited();
}

SchedulerStats EngineLoop::stats() const {
  const std::scoped_lock lock(stats_mutex_);
  return stats_;
}

}  // namespace quire::engine
