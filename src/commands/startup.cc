#include "commands/startup.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "attention/cpu_kernels.h"
#include "attention/select.h"
#include "base/log.h"
#include "commands/version.h"
#include "config/machine.h"
#include "config/print.h"
#include "config/resolve.h"
#include "graph/settings.h"
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

std::string mib(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
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
      : memory_(std::move(memory)), runner_(std::move(runner)), modes_(metrics) {}
  void submit(const StepPlan& plan) override {
    runner_->submit(plan);
    modes_.count(runner_->last_choice().key.mode);
  }
  Result<StepResult> collect() override { return runner_->collect(); }

 private:
  std::shared_ptr<ModelMemory> memory_;  // outlives the runner: declared first
  std::unique_ptr<runner::ModelRunner> runner_;
  StepModeCounters modes_;
};

std::vector<device::CpuKernel> cpu_kernels() {
  std::vector<device::CpuKernel> all;
  for (const auto& k : ops::cpu_kernels()) all.push_back(k);
  for (const auto& k : attention::cpu_kernels()) all.push_back(k);
  return all;
}

std::optional<std::string> requested_backend(config::AttentionBackendChoice choice) {
  switch (choice) {
    case config::AttentionBackendChoice::kAuto: return std::nullopt;
    case config::AttentionBackendChoice::kCpuUnified: return "CPU_UNIFIED";
    case config::AttentionBackendChoice::kCpuSplit: return "CPU_SPLIT";
  }
  return std::nullopt;
}

// The attention row that serves; what it replaced is logged and counted.
Result<const attention::BackendCaps*> choose_backend(const config::ResolvedConfig& c, std::string_view family, engine::Metrics& metrics) {
  const attention::AttnProblem problem{.num_heads = c.model.num_heads,
                                       .num_kv_heads = c.model.num_kv_heads,
                                       .head_dim = c.model.head_dim,
                                       .block_size = c.engine.scheduler.block_size,
                                       .kv_format = kv::kv_format_of(c.engine.kv_dtype).value_or(kv::KvFormat::kOther),
                                       .query_dtype = c.engine.dtype,
                                       .max_context = c.engine.scheduler.max_model_len};
  const auto selection = attention::select_backend(problem, family, requested_backend(c.engine.attention_backend));
  if (!selection.ok()) return selection.error();
  for (const attention::Fallback& f : selection->fallbacks) {
    QUIRE_LOG_WARN("attention: {} instead of {}: {}", f.to, f.from, f.why);
    metrics.count_fallback(f.from, f.to, f.why);
  }
  QUIRE_CHECK(selection->set.one_row()) << "the runner launches one row's kernels";
  return selection->backend;
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

Result<Prepared> prepare(const config::Options& options, StartupTimeline& timeline) {
  const auto environment = config::read_environment(config::process_variables());
  if (!environment.ok()) return environment.error();
  QUIRE_RETURN_IF_ERROR(init_logging(environment->log_level.value_or("info")));
  const auto folders = config::locate_model(options);
  if (!folders.ok()) return folders.error();
  const auto spec = model::read_model_spec(folders->model_dir);
  if (!spec.ok()) return spec.error();
  model::GenerationDefaults generation;
  if (folders->generation_config_dir.has_value()) {
    auto read = model::read_generation_defaults(*folders->generation_config_dir);
    if (!read.ok()) return read.error();
    generation = std::move(read).value();
  }
  timeline.lap("configuration");
  auto tokenizer = text::Tokenizer::load(folders->tokenizer_dir);
  if (!tokenizer.ok()) return tokenizer.error();
  timeline.lap("tokenizer");
  const config::TokenizerFacts facts{tokenizer.value()->facts().model_max_length};
  auto resolved = config::resolve({options, environment.value(), folders.value(), spec.value(), generation, facts, config::this_machine()});
  if (!resolved.ok()) return resolved.error();
  auto chat = text::ChatTemplate::load(folders->tokenizer_dir, tokenizer.value(), resolved->api.chat_template_text);
  if (!chat.ok()) return chat.error();
  if (resolved->engine.cpu_isa != "auto") QUIRE_RETURN_IF_ERROR(ops::limit_cpu_isa(upper(resolved->engine.cpu_isa)));
  log_lines(config::banner(resolved.value(), kVersion));
  timeline.lap("resolution");
  return Prepared{std::move(resolved).value(), std::move(tokenizer).value(), std::move(chat).value()};
}

engine::MetricsConfig metrics_config(const config::ResolvedConfig& c) {
  return engine::MetricsConfig{.model_name = c.api.served_names.front(), .max_model_len = c.engine.scheduler.max_model_len};
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const Prepared& prepared, std::shared_ptr<engine::Metrics> metrics, engine::HealthMonitor& health,
                                                       StartupTimeline& timeline) {
  const config::ResolvedConfig& c = prepared.config;
  auto loaded = std::unique_ptr<LoadedModel>(new LoadedModel());
  loaded->memory_ = std::make_shared<ModelMemory>();
  ModelMemory& memory = *loaded->memory_;
  memory.device = std::make_unique<device::CpuDevice>(c.engine.num_threads, cpu_kernels());
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
  health.set_progress("starting the engine");
  QUIRE_RETURN_IF_ERROR(loaded->make_engine(prepared, metrics, timeline));
  memory.device->seal();
  return loaded;
}

Status LoadedModel::make_engine(const Prepared& prepared, const std::shared_ptr<engine::Metrics>& metrics, StartupTimeline& timeline) {
  const config::ResolvedConfig& c = prepared.config;
  const SchedulerConfig& s = c.engine.scheduler;
  device::CpuDevice& device = *memory_->device;
  const auto chosen = choose_backend(c, device.profile().family, *metrics);
  if (!chosen.ok()) return chosen.error();
  const attention::BackendCaps& backend = *chosen.value();
  QUIRE_LOG_INFO("attention backend {} ({}), kernels for {} on {} threads", backend.name, backend.summary, ops::cpu_isa(), c.engine.num_threads);
  kv::KvLayout layout;
  layout.num_layers = c.model.num_layers;
  layout.num_kv_heads = c.model.num_kv_heads;
  layout.head_dim = c.model.head_dim;
  layout.block_size = s.block_size;
  layout.num_blocks = s.num_blocks;
  layout.dtype = c.engine.kv_dtype;
  layout.key_order = backend.key_order;
  layout.value_order = backend.value_order;
  auto kv = kv::KvStore::create(device, layout);
  if (!kv.ok()) return kv.error();
  memory_->kv = std::make_unique<kv::KvStore>(std::move(kv).value());
  timeline.lap("KV cache");
  const auto graphs = graph::graph_settings(c.engine.graph, graph::GraphFacts{.attention = {std::string(backend.name), backend.graph_support},
                                                                               .max_num_seqs = s.max_num_seqs,
                                                                               .max_num_batched_tokens = s.max_num_batched_tokens,
                                                                               .enforce_eager = c.engine.enforce_eager});
  if (!graphs.ok()) return graphs.error();
  log_notes(graphs->notes);
  const runner::RunnerConfig runner_config{c.model, s, c.engine.max_logprobs, &backend, graphs->mode, graphs->buckets};
  auto runner = runner::ModelRunner::create(device, runner_config, *memory_->weights, *memory_->kv);
  if (!runner.ok()) return runner.error();
  const runner::RunnerBytes bytes = runner::ModelRunner::bytes(runner_config);
  QUIRE_LOG_INFO("memory: weights {} + KV cache {} + activations {} + attention workspace {} + step inputs {} + sequence state {} = {}",
                 mib(model::Weights::arena_bytes(c.model, {c.engine.dtype, s.max_model_len})), mib(static_cast<std::size_t>(layout.total_bytes())), mib(bytes.activations),
                 mib(bytes.attention), mib(bytes.step_inputs), mib(bytes.sequence_state), mib(device.allocated_bytes()));
  const auto started = std::chrono::steady_clock::now();
  const runner::RecordedGraphs recorded = runner.value()->record_graphs();
  QUIRE_LOG_INFO("graph mode {}: {} shapes, {} graphs, {} recorded in {}", graph::graph_mode_name(graphs->mode), recorded.num_keys, recorded.num_graphs, mib(recorded.bytes),
                 seconds_text(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count()));
  timeline.lap("graphs");
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
  engine_ = std::make_shared<engine::Engine>(engine_config, std::make_unique<RunnerExecutor>(memory_, std::move(runner).value(), *metrics), metrics);
  engine_->start();
  timeline.lap("engine");
  return {};
}

std::shared_ptr<const api::Model> LoadedModel::api_model(const Prepared& prepared) const {
  const config::ResolvedConfig& c = prepared.config;
  return std::make_shared<const api::Model>(api::Model{.tokenizer = prepared.tokenizer,
                                                       .chat_template = prepared.chat_template,
                                                       .engine = engine_,
                                                       .vocab_size = c.model.vocab_size,
                                                       .max_model_len = c.engine.scheduler.max_model_len,
                                                       .max_logprobs = c.engine.max_logprobs,
                                                       .eos_token_ids = c.model.eos_token_ids,
                                                       .priority_scheduling = c.engine.scheduler.policy == SchedulingPolicy::kPriority,
                                                       .root = c.engine.model_arg,
                                                       .relaxed = c.engine.relaxed});
}

}  // namespace quire::commands
