#include "commands/startup.h"

#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "attention/cpu_kernels.h"
#include "base/log.h"
#include "commands/builtin_text.h"
#include "commands/console.h"
#include "commands/memory_plan.h"
#include "commands/model_files.h"
#include "commands/run_setup.h"
#include "commands/version.h"
#include "config/print.h"
#include "config/problems.h"
#include "graph/mode.h"
#include "model/checkpoint.h"
#include "ops/cpu_kernels.h"
#include "runner/runner.h"

namespace quire::commands {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

// How steps ran, for /metrics: by graph mode and, when eager, why.
class StepModeCounters {
 public:
  explicit StepModeCounters(engine::Metrics& metrics) {
    for (const graph::RuntimeMode mode : {graph::RuntimeMode::kNone, graph::RuntimeMode::kPiecewise, graph::RuntimeMode::kFull}) {
      engine::MetricLabels labels = metrics.base_labels();
      labels.emplace_back("mode", graph::runtime_mode_name(mode));
      counters_.push_back(metrics.registry().counter("quire:graph_steps_total", "Steps by the graph mode they ran in (NONE: eager)", labels));
    }
  }
  void count(graph::RuntimeMode mode) const { counters_[static_cast<std::size_t>(mode)].add(); }

 private:
  std::vector<engine::Counter> counters_;
};

// The engine's view of a runner. Shares the memory that the runner works in: whoever still holds the engine keeps it alive.
class RunnerExecutor final : public engine::StepExecutor {
 public:
  RunnerExecutor(std::shared_ptr<ModelMemory> memory, std::unique_ptr<runner::ModelRunner> runner, engine::Metrics& metrics)
      : memory_(std::move(memory)), runner_(std::move(runner)), modes_(metrics),
        allocations_(metrics.registry().counter("quire:device_allocations_after_start_total", "Device allocations after the model was loaded; there should be none", metrics.base_labels())) {}
  void submit(const StepPlan& plan) override {
    runner_->submit(plan);
    modes_.count(runner_->last_choice().key.mode);
  }
  Result<StepResult> collect() override {
    auto result = runner_->collect();
    allocations_.add(static_cast<double>(memory_->device->allocations_after_seal()) - allocations_.value());
    return result;
  }

 private:
  std::shared_ptr<ModelMemory> memory_;  // outlives the runner: declared first
  std::unique_ptr<runner::ModelRunner> runner_;
  StepModeCounters modes_;
  engine::Counter allocations_;
};

void publish_memory(engine::Metrics& metrics, const std::vector<MemoryItem>& items) {
  for (const MemoryItem& item : items) {
    engine::MetricLabels labels = metrics.base_labels();
    labels.emplace_back("item", item.name);
    metrics.registry().gauge("quire:memory_bytes", "Memory held since start, by item of the memory plan", labels).set(static_cast<double>(item.bytes));
  }
}

std::vector<device::CpuKernel> cpu_kernels() {
  std::vector<device::CpuKernel> all;
  for (const auto& k : ops::cpu_kernels()) all.push_back(k);
  for (const auto& k : attention::cpu_kernels()) all.push_back(k);
  return all;
}

// Highway's names of instruction sets are in capitals.
std::string upper(std::string name) {
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}

// The banner's warnings become warnings of the log.
void log_lines(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    constexpr std::string_view kWarning = "warning";
    if (line.starts_with(kWarning)) {
      QUIRE_LOG_WARN("{}", line.substr(std::min(line.size(), line.find_first_not_of(' ', kWarning.size()))));
    } else {
      QUIRE_LOG_INFO("{}", line);
    }
    at = end + 1;
  }
}

void log_notes(const std::vector<config::Adjustment>& notes) {
  for (const config::Adjustment& note : notes) {
    if (note.severity == config::Adjustment::Severity::kWarning) {
      QUIRE_LOG_WARN("{}: {}", note.flag, note.text);
    } else {
      QUIRE_LOG_INFO("{}: {}", note.flag, note.text);
    }
  }
}

Result<std::unique_ptr<model::WeightSource>> open_weights(const config::ResolvedConfig& c) {
  if (c.engine.load_format == config::LoadFormat::kDummy) return model::dummy_weights(c.model, c.engine.seed);
  return model::open_checkpoint_weights(c.engine.model_dir, c.model, c.engine.relaxed_unused_tensors);
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

}  // namespace

void StartupTimeline::lap(std::string what) {
  const auto now = Clock::now();
  laps_.emplace_back(std::move(what), std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

double StartupTimeline::total_seconds() const { return std::chrono::duration<double>(last_ - start_).count(); }

std::string StartupTimeline::text() const {
  std::string out;
  for (const auto& [what, seconds] : laps_) out += (out.empty() ? "" : " + ") + what + " " + seconds_text(seconds);
  return out + " = " + seconds_text(total_seconds());
}

// An end token that the model cannot make would never end anything. It is the sign of another model's tokenizer.
Status check_end_token(const text::Tokenizer& tokenizer, const model::ModelSpec& spec) {
  const auto eos = tokenizer.facts().eos;
  if (!eos.has_value() || *eos < spec.vocab_size) return {};
  return Error{ErrorCode::kCorrupt, "the tokenizer's eos_token is id " + std::to_string(*eos) + ", outside the model's vocabulary (0 to " + std::to_string(spec.vocab_size - 1) + "); is it another model's?", "--tokenizer"};
}

Result<Prepared> prepare(const config::Options& options, StartupTimeline& timeline) {
  const auto files = read_model_files(options);
  if (!files.ok()) return files.error();
  timeline.lap("configuration");
  auto tokenizer = text::Tokenizer::load(files->folders.tokenizer_dir);
  timeline.lap("tokenizer");
  auto run = resolve_run(options, files.value(), tokenizer.ok() ? tokenizer.value()->facts().model_max_length : 0);
  config::Problems problems;
  problems.add(tokenizer.ok() ? check_end_token(*tokenizer.value(), files->spec) : Status(tokenizer.error()));
  if (!run.ok()) problems.add(run.error());
  if (!problems.empty()) return problems.to_error();
  config::ResolvedConfig& resolved = run->config;
  auto chat = text::ChatTemplate::load(files->folders.tokenizer_dir, tokenizer.value(), resolved.api.chat_template_text);
  if (!chat.ok()) return chat.error();
  if (resolved.engine.cpu_isa != "auto") QUIRE_RETURN_IF_ERROR(ops::limit_cpu_isa(upper(resolved.engine.cpu_isa)));
  log_lines(config::banner(resolved, kVersion));
  timeline.lap("resolution");
  return Prepared{std::move(resolved), run->machine, run->model_longest, std::move(tokenizer).value(), std::move(chat).value()};
}

int print_config(std::string_view command, const config::Options& options, const config::ResolvedConfig& config) {
  return print_answer(command, options.boolean("json") ? boost::json::serialize(config::config_json(config)) + "\n" : config::config_text(config));
}

engine::MetricsConfig metrics_config(const config::ResolvedConfig& c) {
  return engine::MetricsConfig{.model_name = c.api.served_names.front(), .max_model_len = c.engine.scheduler.max_model_len};
}

namespace {

// Memory, weights, pool and runner with its graphs, in the order of the plan.
Result<std::unique_ptr<runner::ModelRunner>> make_runner(const Prepared& prepared, const MemoryPlan& plan, ModelMemory& memory, engine::Metrics& metrics, StartupTimeline& timeline,
                                                         const RunSetup& setup) {
  const config::ResolvedConfig& c = prepared.config;
  device::CpuDevice& device = *memory.device;
  for (const attention::Fallback& f : setup.selection.fallbacks) {
    QUIRE_LOG_WARN("attention: {} instead of {}: {}", f.to, f.from, f.why);
    metrics.count_fallback(f.from, f.to, f.why);
  }
  const attention::BackendCaps& backend = *setup.selection.backend;
  QUIRE_LOG_INFO("attention backend {} ({}), kernels for {} on {} threads", backend.name, backend.summary, ops::cpu_isa(), c.engine.num_threads);
  auto kv = kv::KvStore::create(device, setup.layout);
  if (!kv.ok()) return kv.error();
  memory.kv = std::make_unique<kv::KvStore>(std::move(kv).value());
  memory.kv->set_scales(std::vector<float>(kv::KvStore::num_scales(setup.layout), 1.0f));
  timeline.lap("KV cache");
  log_notes(setup.graphs.notes);
  auto runner = runner::ModelRunner::create(device, setup.runner, *memory.weights, *memory.kv);
  if (!runner.ok()) return runner.error();
  const auto started = std::chrono::steady_clock::now();
  const runner::RecordedGraphs recorded = runner.value()->record_graphs();
  QUIRE_LOG_INFO("graph mode {}: {} shapes, {} graphs, {} recorded in {}", graph::graph_mode_name(setup.graphs.mode), recorded.num_keys, recorded.num_graphs, mebibytes(recorded.bytes),
                 seconds_text(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count()));
  timeline.lap("graphs");
  const std::vector<MemoryItem> held = memory_items(device, recorded.bytes);
  for (std::size_t i = 0; i < held.size(); ++i) QUIRE_CHECK_EQ(held[i].bytes, plan.items[i].bytes) << "the memory plan of " << held[i].name << " was wrong";
  publish_memory(metrics, held);
  return runner;
}

// The same for the loss of an FP8 cache.
Status judge_cache(const selfcheck::KvGate& gate, const config::EngineSettings& engine, engine::Metrics& metrics) {
  if (gate.layers.empty()) return {};
  const std::string failure = gate.failure();
  metrics.registry().gauge("quire:kv_gate_failed", "1: the FP8 KV cache loses more than its limits and --relaxed kv-scales serves nevertheless", metrics.base_labels()).set(failure.empty() ? 0.0 : 1.0);
  for (std::size_t i = 0; i < gate.layers.size(); ++i) {
    engine::MetricLabels labels = metrics.base_labels();
    labels.emplace_back("layer", std::to_string(i));
    metrics.registry().gauge("quire:kv_attention_error", "Relative error of attention's output from the FP8 KV cache against a 16-bit one, at start", labels).set(gate.layers[i].attention_error);
  }
  if (failure.empty()) return {};
  if (!engine.relaxed_kv_scales)
    return Error{ErrorCode::kUnsupported,
                 "the FP8 KV cache loses too much of this model: " + failure + ". Its scales do not fit: `quire explain MODEL --scales` shows them, `quire eval` measures them, a 16-bit --kv-cache-dtype needs none; --relaxed kv-scales serves with wrong answers",
                 "--kv-cache-dtype"};
  QUIRE_LOG_WARN("--relaxed kv-scales: answers may be wrong: {}", failure);
  return {};
}

// The verdict on a failed self-check: a refusal, or a warning that is repeated wherever somebody may look.
Status judge(const selfcheck::Report& report, bool relaxed, engine::Metrics& metrics) {
  const std::string remedy = "`quire doctor` with the same flags prints every check; another --attention-backend or --enforce-eager may serve";
  metrics.registry().gauge("quire:self_check_failed", "1: kernels differ from the reference and --relaxed self-check serves nevertheless", metrics.base_labels()).set(report.passed() ? 0.0 : 1.0);
  if (report.passed()) return {};
  if (!relaxed) return Error{ErrorCode::kUnsupported, "the self-check failed: " + report.failure() + ". " + remedy + "; --relaxed self-check serves with wrong answers", {}};
  QUIRE_LOG_WARN("--relaxed self-check: answers may be wrong: {}", report.failure());
  return {};
}

}  // namespace

Result<CheckedModel> load_checked(const Prepared& prepared, engine::Metrics& metrics, engine::HealthMonitor& health, StartupTimeline& timeline, const StartupSwitches& switches) {
  const config::ResolvedConfig& c = prepared.config;
  const auto plan = plan_memory({c, prepared.machine, prepared.model_longest, switches.forced_graph_mode});
  if (!plan.ok()) return plan.error();
  log_lines(plan_text(plan.value()));
  QUIRE_RETURN_IF_ERROR(check_fit(plan.value()));
  timeline.lap("memory plan");
  CheckedModel out;
  out.memory = std::make_shared<ModelMemory>();
  ModelMemory& memory = *out.memory;
  memory.device = std::make_unique<device::CpuDevice>(c.engine.num_threads, switches.kernels.empty() ? cpu_kernels() : switches.kernels);
  timeline.lap("device");
  model::LoadProgress progress;
  auto weights = [&]() -> Result<model::Weights> {
    const LoadWatcher watcher(progress, health);
    auto source = open_weights(c);
    if (!source.ok()) return source.error();
    return model::Weights::load(*memory.device, c.model, model::WeightsOptions{c.engine.dtype, c.engine.scheduler.max_model_len}, *source.value(), progress);
  }();
  if (!weights.ok()) return weights.error();
  memory.weights = std::make_unique<model::Weights>(std::move(weights).value());
  timeline.lap("weights");
  const auto setup = set_up_run(c, memory.device->profile().family, switches.forced_graph_mode);
  if (!setup.ok()) return setup.error();
  auto runner = make_runner(prepared, plan.value(), memory, metrics, timeline, setup.value());
  if (!runner.ok()) return runner.error();
  out.runner = std::move(runner).value();
  memory.device->seal();
  const auto tell = [&](std::int32_t percent) { health.set_progress("checking the kernels " + std::to_string(percent) + " %"); };
  out.report = selfcheck::run({setup->runner, *memory.weights, *memory.kv, *out.runner, tell});
  QUIRE_LOG_INFO("self-check: {} checks over {} steps in {}: {}", out.report.verdicts.size(), out.report.num_steps, seconds_text(out.report.seconds), out.report.passed() ? "all passed" : out.report.failure());
  timeline.lap("self-check");
  if (is_fp8(c.engine.kv_dtype)) {
    health.set_progress("measuring the FP8 KV cache");
    const auto text = prepared.tokenizer->encode(builtin_text(), text::AddSpecialTokens::kYes);
    if (!text.ok()) return text.error();
    out.kv_gate = selfcheck::run_kv_gate({setup->runner, *memory.weights, *memory.kv, *out.runner}, text.value());
    QUIRE_LOG_INFO("KV gate: {}, {}: {}", out.kv_gate.summary(), seconds_text(out.kv_gate.seconds), out.kv_gate.passed() ? "passed" : "FAILED, " + out.kv_gate.failure());
    timeline.lap("KV gate");
  }
  return out;
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const Prepared& prepared, std::shared_ptr<engine::Metrics> metrics, engine::HealthMonitor& health, StartupTimeline& timeline,
                                                       const StartupSwitches& switches) {
  auto checked = load_checked(prepared, *metrics, health, timeline, switches);
  if (!checked.ok()) return checked.error();
  QUIRE_RETURN_IF_ERROR(judge(checked->report, prepared.config.engine.relaxed_self_check, *metrics));
  QUIRE_RETURN_IF_ERROR(judge_cache(checked->kv_gate, prepared.config.engine, *metrics));
  health.set_progress("starting the engine");
  auto loaded = std::unique_ptr<LoadedModel>(new LoadedModel());
  loaded->memory_ = checked->memory;
  loaded->make_engine(prepared, std::move(checked->runner), metrics);
  timeline.lap("engine");
  return loaded;
}

void LoadedModel::make_engine(const Prepared& prepared, std::unique_ptr<runner::ModelRunner> runner, const std::shared_ptr<engine::Metrics>& metrics) {
  const config::ResolvedConfig& c = prepared.config;
  const SchedulerConfig& s = c.engine.scheduler;
  engine::EngineConfig engine_config{.scheduler = s,
                                     .max_queue = c.engine.max_queue,
                                     .seed = c.engine.seed,
                                     .request_timeout_seconds = c.engine.request_timeout_seconds,
                                     .log_requests = c.http.log_requests,
                                     .stats_log_seconds = c.http.log_stats ? c.http.log_stats_interval_seconds : 0};
  metrics->set_cache_config({{"block_size", std::to_string(s.block_size)},
                             {"cache_dtype", dtype_name(c.engine.kv_dtype)},
                             {"num_gpu_blocks", std::to_string(s.num_blocks)},
                             {"enable_prefix_caching", s.enable_prefix_caching ? "True" : "False"}});
  engine_ = std::make_shared<engine::Engine>(engine_config, std::make_unique<RunnerExecutor>(memory_, std::move(runner), *metrics), metrics);
  engine_->start();
}

std::shared_ptr<const api::Model> api_model(const Prepared& prepared, std::shared_ptr<engine::Engine> engine) {
  const config::ResolvedConfig& c = prepared.config;
  return std::make_shared<const api::Model>(api::Model{.tokenizer = prepared.tokenizer,
                                                       .chat_template = prepared.chat_template,
                                                       .engine = std::move(engine),
                                                       .vocab_size = c.model.vocab_size,
                                                       .max_model_len = c.engine.scheduler.max_model_len,
                                                       .max_logprobs = c.engine.max_logprobs,
                                                       .eos_token_ids = c.model.eos_token_ids,
                                                       .priority_scheduling = c.engine.scheduler.policy == SchedulingPolicy::kPriority,
                                                       .root = c.engine.model_arg,
                                                       .relaxed = c.engine.relaxed});
}

}  // namespace quire::commands
