// Liveness and readiness from a thread that does nothing else: it reads the engine's status without a lock and keeps a verdict
// that http may copy at any time. Never waits for the engine, so it tells the truth about an engine that hangs.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace quire::engine {

struct HealthConfig {
  double max_step_seconds = 60;  // a step, or any other stage of the engine thread, that runs longer is stuck
  std::chrono::milliseconds period{50};
};

struct HealthVerdict {
  bool live = true;    // false: only a restart helps (stuck or failed)
  bool ready = false;  // requests can be served
  std::string text;    // one line for people and probes
  std::string json;    // the same and the numbers behind it, one object
};

// The rule itself. `progress`: what start-up does now (used while the engine is not there or starting).
[[nodiscard]] HealthVerdict judge(const EngineStatus& status, const std::string& progress, const HealthConfig& config);

class HealthMonitor {
 public:
  explicit HealthMonitor(const HealthConfig& config = {});  // starts the thread; verdict: starting
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // Any thread. Start-up code says where it is ("loading weights 43 %"); attach() hands over to the engine's own state.
  void set_progress(std::string progress);
  void attach(std::shared_ptr<const Engine> engine);
  void detach();  // no engine any more: not ready

  [[nodiscard]] HealthVerdict verdict() const;
  [[nodiscard]] bool live() const;
  [[nodiscard]] bool ready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::engine
