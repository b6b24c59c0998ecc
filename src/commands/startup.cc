#include "commands/startup.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "attention/device_family.h"
#include "base/log.h"
#include "base/text.h"
#include "commands/console.h"
#include "commands/cpu_set_up.h"
#include "commands/log_lines.h"
#include "commands/model_files.h"
#include "commands/relaxed.h"
#include "commands/version.h"
#include "config/print.h"
#include "config/problems.h"
#include "graph/mode.h"
#include "model/kv_scales_json.h"
#include "ops/cpu_kernels.h"

namespace quire::commands {
namespace {

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
    const auto from = Clock::now();
    runner_->submit(plan);
    memory_->clock.submit_nanoseconds += (Clock::now() - from).count();
    modes_.count(runner_->last_choice().key.mode);
  }
  Result<StepResult> collect() override {
    const auto from = Clock::now();
    auto result = runner_->collect();
    memory_->clock.collect_nanoseconds += (Clock::now() - from).count();
    ++memory_->clock.steps;
    allocations_.add(static_cast<double>(memory_->device->allocations_after_seal()) - allocations_.value());
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;  // counts nanoseconds
  static_assert(std::is_same_v<Clock::duration, std::chrono::nanoseconds>);

  std::shared_ptr<ModelMemory> memory_;  // outlives the runner: declared first
  std::unique_ptr<runner::ModelRunner> runner_;
  StepModeCounters modes_;
  engine::Counter allocations_;
};

// An end token that the model cannot make would never end anything. It is the sign of another model's tokenizer.
Status check_end_token(const text::Tokenizer& tokenizer, const model::ModelSpec& spec) {
  const auto eos = tokenizer.facts().eos;
  if (!eos.has_value() || *eos < spec.vocab_size) return {};
  return Error{ErrorCode::kCorrupt, "the tokenizer's eos_token is id " + std::to_string(*eos) + ", outside the model's vocabulary (0 to " + std::to_string(spec.vocab_size - 1) + "); is it another model's?", "--tokenizer"};
}

}  // namespace

std::string seconds_text(double seconds) { return formatted("%.3f s", seconds); }

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

Result<Prepared> prepare(const config::Options& options, StartupTimeline& timeline, const std::string& default_log_level) {
  const auto files = read_model_files(options, default_log_level);
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
  QUIRE_RETURN_IF_ERROR(limit_isa(resolved.engine.cpu_isa));
  auto setup = set_up_run(resolved, std::string(attention::kServedFamily));
  if (!setup.ok()) return setup.error();
  timeline.lap("resolution");
  return Prepared{std::move(resolved), std::move(setup).value(), run->machine, std::move(tokenizer).value(), std::move(chat).value()};
}

void log_banner(const Prepared& p, BannerInputs::Server server) {
  const device::DeviceProfile device = device::read_cpu_profile();
  log_lines(banner({.config = p.config, .setup = p.setup, .device = device, .version = kVersion, .instruction_set = ops::cpu_isa(), .server = server}));
}

std::string serving_json(const Prepared& p) {
  const device::DeviceProfile device = device::read_cpu_profile();
  boost::json::array facts, rejected, notes;
  std::string of;  // what a line without a label goes on about
  const auto more = [](boost::json::array& list, const std::string& text) {
    boost::json::string& last = list.back().as_array().back().as_string();
    last.append("; ").append(text);
  };
  for (const BannerLine& line : banner_lines({.config = p.config, .setup = p.setup, .device = device, .version = kVersion, .instruction_set = ops::cpu_isa()})) {
    if (!line.label.empty()) of = line.label;
    const bool noted = line.label == "warning" || line.label == "note" || line.label == "RELAXED";
    if (noted) notes.emplace_back(line.label + ": " + line.text);
    else if (line.label.empty() && of == "attention") rejected.emplace_back(line.text);
    else if (line.label.empty()) more(facts, line.text);
    else if (line.label != "arguments") facts.push_back({boost::json::string(line.label), boost::json::string(line.text)});
  }
  const boost::json::object out{{"model", p.config.api.served_names.front()}, {"chat", p.chat_template != nullptr}, {"facts", std::move(facts)}, {"rejected", std::move(rejected)}, {"notes", std::move(notes)}};
  return boost::json::serialize(out);
}

int print_config(std::string_view command, const config::Options& options, const config::ResolvedConfig& config) {
  return print_answer(command, options.boolean("json") ? boost::json::serialize(config::config_json(config)) + "\n" : config::config_text(config));
}

engine::MetricsConfig metrics_config(const config::ResolvedConfig& c) {
  return engine::MetricsConfig{.model_name = c.api.served_names.front(), .max_model_len = c.engine.scheduler.max_model_len};
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const Prepared& prepared, std::shared_ptr<engine::Metrics> metrics, engine::HealthMonitor& health, StartupTimeline& timeline,
                                                       const StartupSwitches& switches) {
  auto checked = load_checked(prepared, *metrics, health, timeline, switches);
  if (!checked.ok()) return checked.error();
  auto warnings = judge(checked.value(), prepared.config.engine, *metrics);
  if (!warnings.ok()) return warnings.error();
  health.set_progress("starting the engine");
  auto loaded = std::unique_ptr<LoadedModel>(new LoadedModel());
  loaded->memory_ = checked->memory;
  loaded->kv_gate_ = std::move(checked->kv_gate);
  loaded->scales_ = std::move(checked->scales);
  loaded->warnings_ = std::move(warnings).value();
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

std::shared_ptr<const api::Model> api_model(const Prepared& prepared, const LoadedModel* loaded) {
  const config::ResolvedConfig& c = prepared.config;
  auto model = std::make_shared<api::Model>(api::Model{.tokenizer = prepared.tokenizer,
                                                       .chat_template = prepared.chat_template,
                                                       .vocab_size = c.model.vocab_size,
                                                       .max_model_len = c.engine.scheduler.max_model_len,
                                                       .max_logprobs = c.engine.max_logprobs,
                                                       .eos_token_ids = c.model.eos_token_ids,
                                                       .priority_scheduling = c.engine.scheduler.policy == SchedulingPolicy::kPriority,
                                                       .root = c.engine.model_arg,
                                                       .relaxed = c.engine.relaxed});
  if (loaded != nullptr) {
    model->engine = loaded->engine();
    model->serving_json = serving_json(prepared);
    model->warnings = loaded->warnings();
    model->kv_scales_json = boost::json::serialize(model::scale_ledger_json(loaded->scales()));
  }
  return model;
}

}  // namespace quire::commands
