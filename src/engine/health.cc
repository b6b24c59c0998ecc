#include "engine/health.h"

#include <pthread.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"

namespace quire::engine {
namespace {

using State = EngineStatus::State;
using Stage = EngineStatus::Stage;

const char* state_name(State state) {
  switch (state) {
    case State::kStarting: return "starting";
    case State::kReady: return "ready";
    case State::kDraining: return "draining";
    case State::kStopped: return "stopped";
    case State::kFailed: return "failed";
  }
  return "unknown";
}

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::kIdle: return "idle";
    case Stage::kScheduling: return "scheduling";
    case Stage::kSubmitting: return "submitting a step";
    case Stage::kExecuting: return "executing a step";
    case Stage::kDelivering: return "delivering results";
  }
  return "unknown";
}

// Where the engine thread is stuck; nullopt when it moves. With two steps in flight the oldest one's age counts.
std::optional<std::string> stuck(const EngineStatus& status, const HealthConfig& config) {
  const bool idle = status.stage == Stage::kIdle;
  const std::int64_t age_ms = idle ? 0 : std::max(status.stage_ms, status.step_running_ms);
  if (static_cast<double>(age_ms) <= config.max_step_seconds * 1000.0) return std::nullopt;
  return fmt::format("stuck: {} for {:.1f} s (bound {:.0f} s), step {}, {} running, {} waiting", stage_name(status.stage),
                     static_cast<double>(age_ms) / 1000.0, config.max_step_seconds, status.steps_done + 1, status.num_running, status.num_waiting);
}

// This room knows no JSON library; the one free text in the object is escaped by JSON's own rule.
std::string json_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

std::string working_text(const EngineStatus& status) {
  if (status.stage == Stage::kIdle) return fmt::format("ready: idle, {} steps done", status.steps_done);
  return fmt::format("ready: last step {} ms ago, {} running, {} waiting", status.ms_since_step, status.num_running, status.num_waiting);
}

}  // namespace

HealthVerdict judge(const EngineStatus& status, const std::string& progress, const HealthConfig& config) {
  HealthVerdict out;
  const std::optional<std::string> where = stuck(status, config);
  switch (status.state) {
    case State::kStarting: out.text = progress.empty() ? "starting" : "starting: " + progress; break;
    case State::kReady:
      out.ready = !where;
      out.text = working_text(status);
      break;
    case State::kDraining: out.text = fmt::format("draining: {} requests left", status.num_sequences()); break;
    case State::kStopped: out.text = "stopped"; break;
    case State::kFailed:
      out.live = false;
      out.text = "failed: " + status.failure;
      break;
  }
  if (where && status.state != State::kFailed) {
    out.live = false;
    out.text = *where;
  }
  out.json = fmt::format(
      R"({{"live":{},"ready":{},"state":"{}","text":"{}","stage":"{}","stage_ms":{},"steps_done":{},"ms_since_step":{},"step_running_ms":{},)"
      R"("num_requests_running":{},"num_requests_waiting":{},"kv_cache_usage":{:.6f}}})",
      out.live, out.ready, state_name(status.state), json_escaped(out.text), stage_name(status.stage), status.stage_ms, status.steps_done,
      status.ms_since_step, status.step_running_ms, status.num_running, status.num_waiting, status.kv_usage);
  return out;
}

struct HealthMonitor::Impl {
  explicit Impl(const HealthConfig& settings) : config(settings), current(std::make_shared<const HealthVerdict>(judge({}, {}, settings))) {}

  const HealthConfig config;
  std::atomic<bool> live = true, ready = false;
  mutable std::mutex mutex;  // guards what follows; held for a pointer copy
  std::condition_variable wake;
  std::shared_ptr<const HealthVerdict> current;
  std::shared_ptr<const Engine> engine;
  std::string progress;
  bool changed = false, stopping = false;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      changed = false;
      const std::shared_ptr<const Engine> watched = engine;
      const std::string doing = progress;
      lock.unlock();
      evaluate(watched ? watched->status() : EngineStatus{}, doing);
      lock.lock();
      wake.wait_for(lock, config.period, [this] { return changed || stopping; });
    }
  }

  void evaluate(const EngineStatus& status, const std::string& doing) {
    auto next = std::make_shared<const HealthVerdict>(judge(status, doing, config));
    const bool was_live = live.exchange(next->live), was_ready = ready.exchange(next->ready);
    if (was_live && !next->live)
      QUIRE_LOG_ERROR("health: {}", next->text);
    else if (was_ready != next->ready)
      QUIRE_LOG_INFO("health: {}", next->text);
    const std::scoped_lock lock(mutex);
    current = std::move(next);
  }

  template <class Change>
  void change(Change apply) {
    const std::scoped_lock lock(mutex);
    apply();
    changed = true;
    wake.notify_one();
  }
};

HealthMonitor::HealthMonitor(const HealthConfig& config) : impl_(std::make_unique<Impl>(config)) {
  impl_->thread = std::thread([impl = impl_.get()] {
    ::pthread_setname_np(::pthread_self(), "quire-health");
    impl->run();
  });
}

HealthMonitor::~HealthMonitor() {
  impl_->change([this] { impl_->stopping = true; });
  impl_->thread.join();
}

void HealthMonitor::set_progress(std::string progress) {
  impl_->change([this, &progress] { impl_->progress = std::move(progress); });
}

void HealthMonitor::attach(std::shared_ptr<const Engine> engine) {
  impl_->change([this, &engine] { impl_->engine = std::move(engine); });
}

void HealthMonitor::detach() {
  std::shared_ptr<const Engine> last;  // released outside the lock: its destructor may take long
  impl_->change([this, &last] { last = std::move(impl_->engine); });
}

HealthVerdict HealthMonitor::verdict() const {
  std::shared_ptr<const HealthVerdict> now;
  {
    const std::scoped_lock lock(impl_->mutex);
    now = impl_->current;
  }
  return *now;
}

bool HealthMonitor::live() const { return impl_->live.load(); }
bool HealthMonitor::ready() const { return impl_->ready.load(); }

}  // namespace quire::engine
