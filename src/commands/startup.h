// From a parsed command to a running engine: environment, model, configuration, memory, weights, engine. Used by every subcommand that runs
// a model. Owns everything that lives as long as the program.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/model.h"
#include "base/result.h"
#include "commands/banner.h"
#include "commands/run_setup.h"
#include "commands/startup_switches.h"
#include "config/machine.h"
#include "config/options.h"
#include "config/resolved.h"
#include "device/cpu/cpu_device.h"
#include "engine/engine.h"
#include "engine/health.h"
#include "engine/metrics.h"
#include "kv/store/kv_store.h"
#include "model/kv_scales.h"
#include "model/weights.h"
#include "runner/runner.h"
#include "selfcheck/kv_gate.h"
#include "selfcheck/selfcheck.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::commands {

// Consecutive laps from the process's start on: each begins where the one before ended, so the items add up to the total.
class StartupTimeline {
 public:
  StartupTimeline() : start_(Clock::now()), last_(start_) {}
  void lap(std::string what);
  [[nodiscard]] double total_seconds() const;
  // "environment 0.01 s + weights 0.20 s + ... = 0.31 s"
  [[nodiscard]] std::string text() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, last_;
  std::vector<std::pair<std::string, double>> laps_;
};

// What is known before anything large is touched.
struct Prepared {
  config::ResolvedConfig config;
  RunSetup setup;
  config::MachineFacts machine;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null: the model has none
};
// Model files, tokenizer, resolution, selection. An error lists what is wrong with any of them.
// `default_log_level`: where the environment sets none.
[[nodiscard]] Result<Prepared> prepare(const config::Options& options, StartupTimeline& timeline, const std::string& default_log_level = "info");

// {"model", "chat": it has a template, "facts": [[name, text]], "rejected": attention rows that do not run, "notes": warnings and
// adjustments}: the banner without the command's arguments and the server's address, for GET /quire/serving and the page that shows it.
[[nodiscard]] std::string serving_json(const Prepared& prepared);
void log_banner(const Prepared& prepared, BannerInputs::Server server);
// "1.234 s"
[[nodiscard]] std::string seconds_text(double seconds);

// --print-config: what would run, one value a line, or one JSON document with --json. Returns the exit code.
[[nodiscard]] int print_config(std::string_view command, const config::Options& options, const config::ResolvedConfig& config);

// What steps took so far. Written by the engine's thread, readable by any.
struct StepClock {
  std::atomic<std::int64_t> steps = 0, submit_nanoseconds = 0, collect_nanoseconds = 0;
};

// What a runner works in. Weights and pool are on the device, so it goes last.
struct ModelMemory {
  std::unique_ptr<device::CpuDevice> device;
  std::unique_ptr<model::Weights> weights;
  std::unique_ptr<kv::KvStore> kv;
  StepClock clock;
};

// Everything up to the engine: a model on its device, checked.
struct CheckedModel {
  std::shared_ptr<ModelMemory> memory;
  std::unique_ptr<runner::ModelRunner> runner;
  model::ScaleLedger scales;  // of memory->kv
  selfcheck::Report report;
  selfcheck::KvGate kv_gate;  // no layers: the cache is not FP8
  std::vector<std::string> ignored_tensors;  // WeightSource::ignored_tensors
};
// Reports progress through `health` ("loading weights 43 %"). A failed self-check or KV gate is no error here.
[[nodiscard]] Result<CheckedModel> load_checked(const Prepared& prepared, engine::Metrics& metrics, engine::HealthMonitor& health, StartupTimeline& timeline,
                                                const StartupSwitches& switches = {});

// A loaded model with its engine.
class LoadedModel {
 public:
  // load_checked(), then the engine, started. Refused when the self-check or the KV gate failed, unless that is relaxed (commands/relaxed.h).
  [[nodiscard]] static Result<std::unique_ptr<LoadedModel>> load(const Prepared& prepared, std::shared_ptr<engine::Metrics> metrics, engine::HealthMonitor& health,
                                                                 StartupTimeline& timeline, const StartupSwitches& switches = {});
  [[nodiscard]] const std::shared_ptr<engine::Engine>& engine() const { return engine_; }
  [[nodiscard]] const StepClock& step_clock() const { return memory_->clock; }
  [[nodiscard]] const selfcheck::KvGate& kv_gate() const { return kv_gate_; }
  [[nodiscard]] const model::ScaleLedger& scales() const { return scales_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }  // of judge()

 private:
  LoadedModel() = default;
  void make_engine(const Prepared& prepared, std::unique_ptr<runner::ModelRunner> runner, const std::shared_ptr<engine::Metrics>& metrics);

  std::shared_ptr<ModelMemory> memory_;  // shared with the engine's executor
  model::ScaleLedger scales_;
  std::shared_ptr<engine::Engine> engine_;
  selfcheck::KvGate kv_gate_;
  std::vector<std::string> warnings_;
};

// What the API needs of the model. Without a loaded one (nullptr) it is enough for reading requests.
[[nodiscard]] std::shared_ptr<const api::Model> api_model(const Prepared& prepared, const LoadedModel* loaded);

[[nodiscard]] engine::MetricsConfig metrics_config(const config::ResolvedConfig& config);

}  // namespace quire::commands
