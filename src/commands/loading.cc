// KV scales, memory, weights, pool, runner, graphs and self-check; memory in the order of its plan.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "attention/device_family.h"
#include "base/log.h"
#include "calibration/scales.h"
#include "commands/builtin_text.h"
#include "commands/cpu_set_up.h"
#include "commands/kv_scales.h"
#include "commands/log_lines.h"
#include "commands/memory_plan.h"
#include "commands/progress.h"
#include "commands/startup.h"
#include "graph/mode.h"
#include "model/checkpoint.h"
#include "ops/cpu_kernels.h"

namespace quire::commands {
namespace {

void publish_memory(engine::Metrics& metrics, const std::vector<MemoryItem>& items) {
  for (const MemoryItem& item : items) {
    engine::MetricLabels labels = metrics.base_labels();
    labels.emplace_back("item", item.name);
    metrics.registry().gauge("quire:memory_bytes", "Memory held since start, by item of the memory plan", labels).set(static_cast<double>(item.bytes));
  }
}

// Tells health and the terminal how far loading is, five times a second, until it goes out of scope (at once, not at the next tick).
class LoadWatcher {
 public:
  LoadWatcher(const model::LoadProgress& progress, engine::HealthMonitor& health) : thread_([this, &progress, &health](const std::stop_token& stop) {
    std::int64_t told = -1;
    while (!stop.stop_requested()) {
      const std::int64_t total = progress.parameters_total, percent = total == 0 ? 0 : progress.parameters_done * 100 / total;
      health.set_progress("loading weights " + std::to_string(percent) + " %");
      if (percent / 10 != told / 10 && percent > 0) QUIRE_LOG_INFO("loading weights {} %", percent);
      told = percent;
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; });
    }
  }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses the two above
};

// One run of load_checked().
class Loading {
 public:
  Loading(const Prepared& prepared, engine::Metrics& metrics, engine::HealthMonitor& health, StartupTimeline& timeline)
      : prepared_(prepared), config_(prepared.config), metrics_(metrics), health_(health), timeline_(timeline) {}

  Result<CheckedModel> run(const StartupSwitches& switches) {
    auto setup = switches.forced_graph_mode.has_value() ? set_up_run(config_, std::string(attention::kServedFamily), switches.forced_graph_mode) : Result<RunSetup>(prepared_.setup);
    if (!setup.ok()) return setup.error();
    auto plan = plan_memory({config_, prepared_.machine, switches.forced_graph_mode});
    if (!plan.ok()) return plan.error();
    log_lines(plan_text(plan.value()));
    QUIRE_RETURN_IF_ERROR(check_fit(plan.value()));
    timeline_.lap("memory plan");
    QUIRE_RETURN_IF_ERROR(read_scales());
    out_.memory = std::make_shared<ModelMemory>();
    out_.memory->device = std::make_unique<device::CpuDevice>(config_.engine.num_threads, switches.kernels.empty() ? all_cpu_kernels() : switches.kernels);
    timeline_.lap("device");
    for (const auto part : {&Loading::load_weights, &Loading::make_cache, &Loading::make_runner}) {
      const Status status = (this->*part)(setup.value());
      if (!status.ok()) return allocation_error(status.error(), *out_.memory->device, plan->follows);
    }
    hold_to(plan.value());
    out_.memory->device->seal();
    check_kernels(setup.value());
    if (is_fp8(config_.engine.kv_dtype)) QUIRE_RETURN_IF_ERROR(measure_cache(setup.value()));
    return std::move(out_);
  }

 private:
  Status read_scales() {
    auto scales = run_ledger(config_);
    if (!scales.ok()) return scales.error();
    out_.scales = std::move(scales).value();
    log_lines(ledger_text(out_.scales));
    timeline_.lap("KV scales");
    return {};
  }
  Status load_weights(const RunSetup& setup) {
    model::LoadProgress progress;
    const LoadWatcher watcher(progress, health_);
    auto source = open_run_weights(config_, out_.scales);
    if (!source.ok()) return source.error();
    auto weights = model::Weights::load(*out_.memory->device, config_.model, setup.weights, *source.value(), progress);
    if (!weights.ok()) return weights.error();
    out_.memory->weights = std::make_unique<model::Weights>(std::move(weights).value());
    out_.ignored_tensors = source.value()->ignored_tensors();
    timeline_.lap("weights");
    return {};
  }
  Status make_cache(const RunSetup& setup) {
    auto kv = kv::KvStore::create(*out_.memory->device, setup.layout);
    if (!kv.ok()) return kv.error();
    out_.memory->kv = std::make_unique<kv::KvStore>(std::move(kv).value());
    if (!out_.scales.pending()) out_.memory->kv->set_scales(out_.scales.store_scales());
    timeline_.lap("KV cache");
    return {};
  }
  Status make_runner(const RunSetup& setup) {
    for (const attention::Fallback& f : setup.selection.fallbacks) metrics_.count_fallback(f.from, f.to, f.why);  // the banner has said it
    auto runner = runner::ModelRunner::create(*out_.memory->device, setup.runner, *out_.memory->weights, *out_.memory->kv);
    if (!runner.ok()) return runner.error();
    out_.runner = std::move(runner).value();
    if (out_.scales.pending()) QUIRE_RETURN_IF_ERROR(calculate_scales(setup));
    const auto started = std::chrono::steady_clock::now();
    Progress progress(health_, "recording graphs");
    recorded_ = out_.runner->record_graphs([&](std::size_t done, std::size_t total) { progress.tell(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total)); });
    QUIRE_LOG_INFO("graph mode {}: {} shapes, {} graphs, {} recorded in {}", graph::graph_mode_name(setup.graphs.mode), recorded_.num_keys, recorded_.num_graphs, mebibytes(recorded_.bytes),
                   seconds_text(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count()));
    timeline_.lap("graphs");
    return {};
  }
  Status calculate_scales(const RunSetup& setup) {
    const auto text = builtin_tokens();
    if (!text.ok()) return text.error();
    const config::EngineSettings& e = config_.engine;
    const calibration::Divisors divisors{.keys = static_cast<float>(e.k_scale_constant), .values = static_cast<float>(e.v_scale_constant)};
    Progress progress(health_, "calculating KV scales");
    const auto made = calibration::calculate_kv_scales({setup.runner, *out_.memory->weights, *out_.memory->kv, *out_.runner}, text.value(), divisors, [&](std::int64_t done, std::int64_t total) { progress.tell(done, total); });
    if (!made.ok()) return made.error();
    for (const std::string& zero : made->zeros) QUIRE_LOG_WARN("--calculate-kv-scales: {}", zero);
    out_.scales = model::calculated_ledger(std::move(out_.scales), made->scales);
    QUIRE_LOG_INFO("--calculate-kv-scales: over {} tokens; scale of keys: the largest / {}, of values: / {}", text->size(), e.k_scale_constant, e.v_scale_constant);
    log_lines(ledger_text(out_.scales));
    timeline_.lap("calculated KV scales");
    return {};
  }
  void hold_to(const MemoryPlan& plan) {
    const std::vector<MemoryItem> held = memory_items(*out_.memory->device, recorded_.bytes);
    for (std::size_t i = 0; i < held.size(); ++i) QUIRE_CHECK_EQ(held[i].bytes, plan.items[i].bytes) << "the memory plan of " << held[i].name << " was wrong";
    publish_memory(metrics_, held);
  }
  void check_kernels(const RunSetup& setup) {
    Progress progress(health_, "checking the kernels");
    const std::vector<float> scales = out_.scales.store_scales();
    out_.report = selfcheck::run({setup.runner, *out_.memory->weights, *out_.memory->kv, *out_.runner, scales, [&](std::int32_t percent) { progress.tell(percent, 100); }});
    QUIRE_LOG_INFO("self-check: {} checks over {} steps in {}: {}", out_.report.verdicts.size(), out_.report.num_steps, seconds_text(out_.report.seconds),
                   out_.report.passed() ? "all passed" : out_.report.failure());
    timeline_.lap("self-check");
  }
  // The built-in text in the model's tokens.
  Result<std::vector<TokenId>> builtin_tokens() {
    auto text = prepared_.tokenizer->encode(builtin_text(), text::AddSpecialTokens::kYes);
    if (!text.ok()) return text.error();
    const auto alien = std::find_if(text->begin(), text->end(), [&](TokenId id) { return id < 0 || id >= config_.model.vocab_size; });
    if (text->empty() || alien != text->end())
      return Error{ErrorCode::kCorrupt, "--tokenizer: it makes " + (text->empty() ? std::string("no token") : "token id " + std::to_string(*alien)) + " of an ordinary text; the model has " + std::to_string(config_.model.vocab_size) + " tokens", "--tokenizer"};
    return text;
  }
  Status measure_cache(const RunSetup& setup) {
    health_.set_progress("measuring the FP8 KV cache");
    const auto text = builtin_tokens();
    if (!text.ok()) return text.error();
    out_.kv_gate = selfcheck::run_kv_gate({setup.runner, *out_.memory->weights, *out_.memory->kv, *out_.runner}, text.value());
    QUIRE_LOG_INFO("KV gate: {}, {}: {}", out_.kv_gate.summary(), seconds_text(out_.kv_gate.seconds), out_.kv_gate.passed() ? "passed" : "FAILED, " + out_.kv_gate.failure());
    timeline_.lap("KV gate");
    return {};
  }

  const Prepared& prepared_;
  const config::ResolvedConfig& config_;
  engine::Metrics& metrics_;
  engine::HealthMonitor& health_;
  StartupTimeline& timeline_;
  CheckedModel out_;
  runner::RecordedGraphs recorded_;
};

}  // namespace

Result<CheckedModel> load_checked(const Prepared& prepared, engine::Metrics& metrics, engine::HealthMonitor& health, StartupTimeline& timeline, const StartupSwitches& switches) {
  return Loading(prepared, metrics, health, timeline).run(switches);
}

}  // namespace quire::commands
