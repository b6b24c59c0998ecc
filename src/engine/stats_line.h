// The periodic statistics line: throughput since the last line, load, cache use. Silent when nothing happened.
// Owned by the engine thread; it decides when, the engine decides only to ask.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/scheduler.h"

namespace quire::engine {

class StatsLine {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StatsLine(double period_seconds) : period_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(period_seconds))) {}

  // Tokens that a finished step ran or sampled. The first after silence opens an interval.
  void add(std::int64_t num_prompt_tokens, std::int64_t num_generated_tokens, Clock::time_point now);
  // When the open interval ends; nullopt while silent or off.
  [[nodiscard]] std::optional<Clock::time_point> due() const;
  // The line, once due() has passed; nullopt otherwise. Starts the next interval, or silence when nothing runs.
  [[nodiscard]] std::optional<std::string> take(const SchedulerStats& stats, std::int32_t num_running, std::int32_t num_waiting,
                                                Clock::time_point now);

 private:
  Clock::duration period_;
  std::optional<Clock::time_point> interval_start_;
  std::int64_t prompt_tokens_ = 0, generated_tokens_ = 0;
  std::uint64_t prefix_queries_ = 0, prefix_hits_ = 0;  // at the last line
};

}  // namespace quire::engine
