// How far long work at start is: to /ready at once, and to the log as a bar, at most once a second, so that short work says nothing.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/health.h"

namespace quire::commands {

// "[#######---] 70 %"; percent is cut to 0 .. 100.
[[nodiscard]] std::string progress_bar(std::int64_t percent);

class Progress {
 public:
  // `what` as in "recording graphs". `health` must outlive this.
  Progress(engine::HealthMonitor& health, std::string what) : health_(health), what_(std::move(what)) {}
  void tell(std::int64_t done, std::int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  engine::HealthMonitor& health_;
  std::string what_;
  Clock::time_point logged_ = Clock::now();
};

}  // namespace quire::commands
