#include "commands/serve.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <thread>

#include "api/service.h"
#include "base/log.h"
#include "commands/console.h"
#include "commands/startup.h"
#include "http/server.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "serve";

// One request to stop may come as several signals: GNU timeout sends its own and one to the group, a terminal sends to every process of a
// pipeline, and a supervisor may repeat itself.
constexpr std::chrono::seconds kSameRequest(1);

// SIGTERM and SIGINT, taken by the main thread alone: every other thread inherits the mask.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // A signal that came within `bound` and asks for something new: it is the first, or came more than kSameRequest after the first.
  [[nodiscard]] std::optional<int> wait(std::chrono::milliseconds bound) {
    const timespec t{.tv_sec = bound.count() / 1000, .tv_nsec = bound.count() % 1000 * 1'000'000};
    const int got = sigtimedwait(&set_, nullptr, &t);
    if (got <= 0) return std::nullopt;
    const auto now = std::chrono::steady_clock::now();
    if (first_.has_value() && now - *first_ <= kSameRequest) return std::nullopt;
    if (!first_.has_value()) first_ = now;
    return got;
  }

 private:
  sigset_t set_;
  std::optional<std::chrono::steady_clock::time_point> first_;
};

// Work on another thread while the main thread listens for signals.
template <class Work>
class Background {
 public:
  explicit Background(Work work) : thread_([this, work = std::move(work)]() mutable { work(); done_.store(true); }) {}
  // True when the work is done, false when a stop signal came first.
  [[nodiscard]] bool wait(StopSignals& signals) {
    while (!done_.load())
      if (signals.wait(std::chrono::milliseconds(20)).has_value()) return false;
    return true;
  }

 private:
  std::atomic<bool> done_{false};
  std::jthread thread_;
};

struct Parts {
  Prepared prepared;
  std::shared_ptr<engine::Metrics> metrics;
  std::shared_ptr<engine::HealthMonitor> health = std::make_shared<engine::HealthMonitor>();
  std::shared_ptr<api::Service> service;
  std::unique_ptr<LoadedModel> model;   // before the server: sessions use the engine
  std::unique_ptr<http::Server> server;
};

// Ends the process at once: loading and draining cannot be interrupted, and nothing here needs to be written back.
[[noreturn]] void leave_now(const char* why) {
  QUIRE_LOG_WARN("{}", why);
  spdlog::default_logger()->flush();
  std::_Exit(kFailureExitCode);
}

int run_until_signal(Parts& p, StopSignals& signals) {
  for (;;) {
    if (const auto got = signals.wait(std::chrono::milliseconds(200))) {
      QUIRE_LOG_INFO("signal {}: draining for at most {} s", *got, p.prepared.config.http.shutdown_timeout_seconds);
      return 0;
    }
    const engine::EngineStatus status = p.model->engine()->status();
    if (status.state == engine::EngineStatus::State::kFailed) {
      QUIRE_LOG_ERROR("the engine failed: {}", status.failure);
      return kFailureExitCode;
    }
  }
}

void shut_down(Parts& p, StopSignals& signals, bool grace) {
  Background work([&] {
    const std::chrono::seconds bound(grace ? p.prepared.config.http.shutdown_timeout_seconds : 0);
    p.service->set_draining();
    if (!p.server->drain(bound)) QUIRE_LOG_WARN("some requests had not ended after {} s and got an error", bound.count());
    p.model->engine()->stop(std::chrono::milliseconds(0));
    p.server->stop();
  });
  if (!work.wait(signals)) leave_now("asked to stop again: leaving without draining");
  QUIRE_LOG_INFO("stopped");
}

}  // namespace

int serve(const config::ServeCommand& command, const StartupSwitches& switches) {
  StartupTimeline timeline;
  StopSignals signals;
  auto prepared = prepare(command.options, timeline);
  if (!prepared.ok()) return report_error(kCommand, prepared.error());
  if (command.options.boolean("print-config")) return print_config(kCommand, command.options, prepared->config);
  Parts p{.prepared = std::move(prepared).value()};
  log_banner(p.prepared, BannerInputs::Server::kListens);
  p.metrics = std::make_shared<engine::Metrics>(metrics_config(p.prepared.config));
  p.service = std::make_shared<api::Service>(p.prepared.config.api, p.metrics, p.health);
  p.server = std::make_unique<http::Server>(p.prepared.config.http, p.service);
  const auto port = p.server->bind();
  if (!port.ok()) return report_error(kCommand, port.error());
  p.server->start();
  QUIRE_LOG_INFO("listening on {}; /ready answers 503 until the model is loaded", p.server->address());
  timeline.lap("listening");

  std::optional<Error> failure;
  {
    Background loading([&] {
      auto model = LoadedModel::load(p.prepared, p.metrics, *p.health, timeline, switches);
      if (model.ok()) {
        p.model = std::move(model).value();
      } else {
        failure = model.error();
      }
    });
    if (!loading.wait(signals)) leave_now("signal while loading: leaving");
  }
  if (failure.has_value()) {
    p.server->stop();
    return report_error(kCommand, *failure);
  }
  p.health->attach(p.model->engine());
  p.service->attach(api_model(p.prepared, p.model.get()));
  QUIRE_LOG_INFO("start-up: {}", timeline.text());
  QUIRE_LOG_INFO("serving {} on {}", p.prepared.config.api.served_names.front(), p.server->address());

  const int code = run_until_signal(p, signals);
  shut_down(p, signals, code == 0);
  p.health->detach();
  return code;
}

}  // namespace quire::commands
