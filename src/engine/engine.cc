#include "engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/engine_loop.h"
#include "engine/inbox.h"
#include "engine/status_board.h"
#include "scheduler/admission.h"

namespace quire::engine {
namespace {

constexpr std::chrono::milliseconds kMaxGrace = std::chrono::hours(24 * 365);
constexpr std::chrono::seconds kStepEndGrace{1};

}  // namespace

struct Engine::Impl {
  Impl(const EngineConfig& settings, std::unique_ptr<StepExecutor> executor, std::shared_ptr<Metrics> shared_metrics)
      : config(settings),
        metrics(shared_metrics),
        inbox(settings.max_queue, board),
        loop(settings, std::move(executor), std::move(shared_metrics), inbox, board) {}

  const EngineConfig config;
  std::shared_ptr<Metrics> metrics;
  StatusBoard board;
  Inbox inbox;
  EngineLoop loop;
  std::mutex thread_mutex;
  std::thread thread;
};

Engine::Engine(const EngineConfig& config, std::unique_ptr<StepExecutor> executor, std::shared_ptr<Metrics> metrics) {
  QUIRE_CHECK(executor != nullptr);
  QUIRE_CHECK(metrics != nullptr);
  QUIRE_CHECK(config.max_queue >= 1) << config.max_queue;
  QUIRE_CHECK(config.scheduler.depth == 1 || config.scheduler.depth == 2) << config.scheduler.depth;
  impl_ = std::make_unique<Impl>(config, std::move(executor), std::move(metrics));
}

Engine::~Engine() {
  stop(std::chrono::milliseconds(0));
  if (impl_->thread.joinable()) impl_->thread.join();
}

void Engine::start() {
  const std::scoped_lock lock(impl_->thread_mutex);
  impl_->inbox.start();
  impl_->thread = std::thread([impl = impl_.get()] {
    ::pthread_setname_np(::pthread_self(), "quire-engine");
    impl->loop.run();
  });
}

Result<RequestId> Engine::submit(GenerateRequest request, SeedSource seed, std::shared_ptr<EventQueue> events) {
  QUIRE_CHECK(events != nullptr);
  QUIRE_RETURN_IF_ERROR(check_admission(request.prompt.size(), request.sampling, impl_->config.scheduler));  // not only when its turn comes
  auto id = impl_->inbox.submit(std::move(request), seed == SeedSource::kRequest ? std::nullopt : std::optional(impl_->config.seed), std::move(events));
  if (!id.ok() && id.error().code == ErrorCode::kResourceExhausted) impl_->metrics->count_rejected();
  return id;
}

void Engine::cancel(RequestId id) { impl_->inbox.end(id, FinishReason::kAbort); }

void Engine::finish(RequestId id) { impl_->inbox.end(id, FinishReason::kStop); }

void Engine::settle(RequestId id) { impl_->inbox.settle(id); }

void Engine::stop(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::steady_clock::now() + std::clamp(grace, std::chrono::milliseconds(0), kMaxGrace);
  if (!impl_->inbox.close(deadline)) return;
  if (!impl_->inbox.wait_exit(kStepEndGrace)) {
    impl_->loop.end_all_requests();
    return;
  }
  const std::scoped_lock lock(impl_->thread_mutex);
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::int32_t Engine::max_queue() const { return impl_->config.max_queue; }

EngineStatus Engine::status() const {
  EngineStatus status = impl_->board.read(std::chrono::steady_clock::now());
  // Submissions that the engine thread has not seen yet wait too.
  status.num_waiting = std::max(impl_->inbox.num_open() - status.num_running, 0);
  if (status.state == EngineStatus::State::kFailed) status.failure = impl_->inbox.failure();
  return status;
}

SchedulerStats Engine::stats() const { return impl_->loop.stats(); }

bool Engine::reset_prefix_cache(std::chrono::milliseconds timeout) {
  const auto done = std::make_shared<std::promise<bool>>();
  std::future<bool> answer = done->get_future();
  if (!impl_->inbox.reset_prefix_cache(done)) return false;
  return answer.wait_for(timeout) == std::future_status::ready && answer.get();
}

}  // namespace quire::engine
