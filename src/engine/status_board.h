// The engine thread's position, readable by any thread without a lock: what it does, since when, and what it holds.
// Written by the engine thread alone (state: by whoever changes it, under the engine's inbox lock).
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "engine/engine.h"

namespace quire::engine {

class StatusBoard {
 public:
  using Clock = std::chrono::steady_clock;

  void set_state(EngineStatus::State state) { state_.store(state); }
  [[nodiscard]] EngineStatus::State state() const { return state_.load(); }

  void enter(EngineStatus::Stage stage, Clock::time_point now) {
    // Work that arrives after idling starts the clock of "since the last step" anew.
    if (stage_.load(std::memory_order_relaxed) == EngineStatus::Stage::kIdle) last_progress_.store(ticks(now), std::memory_order_relaxed);
    stage_since_.store(ticks(now), std::memory_order_relaxed);
    stage_.store(stage, std::memory_order_relaxed);
  }
  void step_started(Clock::time_point now) { step_started_.store(ticks(now), std::memory_order_relaxed); }
  void no_step() { step_started_.store(0, std::memory_order_relaxed); }
  void step_finished(Clock::time_point now) {
    last_progress_.store(ticks(now), std::memory_order_relaxed);
    steps_done_.fetch_add(1, std::memory_order_relaxed);
  }
  void set_load(std::int32_t num_running, std::int32_t num_waiting, double kv_usage) {
    num_running_.store(num_running, std::memory_order_relaxed);
    num_waiting_.store(num_waiting, std::memory_order_relaxed);
    kv_usage_.store(kv_usage, std::memory_order_relaxed);
  }

  [[nodiscard]] EngineStatus read(Clock::time_point now) const {
    EngineStatus out;
    out.state = state_.load();
    out.stage = stage_.load(std::memory_order_relaxed);
    const bool idle = out.stage == EngineStatus::Stage::kIdle;
    out.stage_ms = age_ms(stage_since_, now);
    out.steps_done = steps_done_.load(std::memory_order_relaxed);
    out.ms_since_step = idle ? 0 : age_ms(last_progress_, now);
    out.step_running_ms = age_ms(step_started_, now);
    out.num_running = num_running_.load(std::memory_order_relaxed);
    out.num_waiting = num_waiting_.load(std::memory_order_relaxed);
    out.kv_usage = kv_usage_.load(std::memory_order_relaxed);
    return out;
  }

 private:
  static std::int64_t ticks(Clock::time_point t) { return t.time_since_epoch().count(); }
  // 0 means "not set"; a reader may hold a `now` from just before the write.
  static std::int64_t age_ms(const std::atomic<std::int64_t>& since, Clock::time_point now) {
    const std::int64_t then = since.load(std::memory_order_relaxed);
    if (then == 0 || then > ticks(now)) return 0;
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::duration(ticks(now) - then)).count();
  }

  std::atomic<EngineStatus::State> state_ = EngineStatus::State::kStarting;
  std::atomic<EngineStatus::Stage> stage_ = EngineStatus::Stage::kIdle;
  std::atomic<std::int64_t> stage_since_ = 0, last_progress_ = 0, step_started_ = 0;
  std::atomic<std::uint64_t> steps_done_ = 0;
  std::atomic<std::int32_t> num_running_ = 0, num_waiting_ = 0;
  std::atomic<double> kv_usage_ = 0.0;
};

}  // namespace quire::engine
