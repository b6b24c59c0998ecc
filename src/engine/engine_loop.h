// The engine thread's body. Alone owns the scheduler and the executor; the ledger is behind a lock only so that stop() can
// end requests while the executor hangs. Private to engine.cc.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/metrics.h"
#include "engine/request_ledger.h"
#include "engine/stats_line.h"
#include "engine/status_board.h"

namespace quire::engine {

class EngineLoop {
 public:
  // `inbox` and `board` outlive the loop.
  EngineLoop(const EngineConfig& config, std::unique_ptr<StepExecutor> executor, std::shared_ptr<Metrics> metrics, Inbox& inbox, StatusBoard& board);

  // Runs until the inbox says so; leaves no step in flight and no request open.
  void run();
  // Any thread: ends every request now, while run() is inside the executor.
  void end_all_requests();
  [[nodiscard]] SchedulerStats stats() const;

 private:
  struct StepInFlight {
    std::uint64_t step_id = 0;
    std::int32_t num_tokens = 0, num_prompt_tokens = 0;
    Clock::time_point started;
  };

  void take_commands();
  void handle(SubmitCommand& command);
  void handle(const EndCommand& command);
  void handle(const ResetPrefixCacheCommand& command);
  void expire();
  void submit_steps();
  void collect_step();
  [[nodiscard]] std::size_t num_open_requests();
  void fail_engine(const std::string& why);
  void publish();
  void leave();

  const EngineConfig config_;
  std::unique_ptr<StepExecutor> executor_;
  std::shared_ptr<Metrics> metrics_;
  Inbox& inbox_;
  Inbox::EngineSide engine_side_;
  StatusBoard& board_;
  Scheduler scheduler_;
  StatsLine stats_line_;
  std::deque<StepInFlight> in_flight_;
  int errors_in_a_row_ = 0;
  bool failed_ = false;

  std::mutex ledger_mutex_;  // guards the next two
  RequestLedger ledger_;
  std::vector<RequestId> ended_at_stop_;  // by end_all_requests(), to be told to the scheduler
  mutable std::mutex stats_mutex_;
  SchedulerStats stats_;
};

}  // namespace quire::engine
