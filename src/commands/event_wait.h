// Waiting for what an engine in this process makes of requests: the one rule for how long nothing may happen. Shared by every command that
// submits requests itself; knows no request.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/event_queue.h"

namespace quire::commands {

class EventWait {
 public:
  static constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(10);

  // Both outlive it.
  EventWait(const engine::Engine& engine, engine::EventQueue& events) : EventWait(events, [&engine] { return engine.status().steps_done; }, kPatience) {}
  // The rule apart from an engine: `steps_done` counts what the engine has done.
  EventWait(engine::EventQueue& events, std::function<std::uint64_t()> steps_done, std::chrono::milliseconds patience)
      : events_(events), steps_done_(std::move(steps_done)), patience_(patience), last_steps_(steps_done_()) {}

  // What has come, in order; nothing when `most` is over. Error (kInternal): for as long as its patience no event came and no step ended.
  // A long prompt has many steps before its first event, so events alone say nothing.
  [[nodiscard]] Result<std::vector<engine::AddressedEvent>> next(std::chrono::milliseconds most);

 private:
  using Clock = std::chrono::steady_clock;
  engine::EventQueue& events_;
  std::function<std::uint64_t()> steps_done_;
  std::chrono::milliseconds patience_;
  std::uint64_t last_steps_;
  Clock::time_point moved_ = Clock::now();
};

}  // namespace quire::commands
