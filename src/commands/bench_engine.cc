#include "commands/bench_engine.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/log.h"
#include "commands/bench_serve.h"
#include "commands/console.h"
#include "commands/event_wait.h"
#include "commands/progress.h"
#include "commands/startup.h"

namespace quire::commands {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEventWait(1000);

double seconds_since(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

// Gives the engine all of `work` at once, or as much as its queue takes, and waits for the last answer. Errors: a request failed.
class WorkRun {
 public:
  WorkRun(engine::Engine& engine, const EngineWork& work) : engine_(engine), work_(work) {}

  Result<double> run() {
    const auto from = Clock::now();
    EventWait wait(engine_, *events_);
    while (ended_ < work_.prompts.size()) {
      QUIRE_RETURN_IF_ERROR(submit());
      const auto came = wait.next(kEventWait);
      if (!came.ok()) return came.error();
      for (const engine::AddressedEvent& e : came.value()) {
        const auto* finish = std::get_if<engine::FinishEvent>(&e.event);
        if (finish == nullptr) continue;
        if (finish->error.has_value()) return *finish->error;
        ++ended_;
      }
      tell();
    }
    return seconds_since(from);
  }

 private:
  Status submit() {
    while (submitted_ < work_.prompts.size() && submitted_ - ended_ < static_cast<std::size_t>(engine_.max_queue())) {
      engine::GenerateRequest request{.prompt = work_.prompts[submitted_], .client_id = "bench-" + std::to_string(submitted_)};
      request.sampling.max_tokens = work_.output_lens[submitted_];
      request.sampling.ignore_eos = true;
      const auto id = engine_.submit(std::move(request), engine::SeedSource::kEngine, events_);
      if (!id.ok()) return id.error();
      ++submitted_;
    }
    return {};
  }
  void tell() {
    if (Clock::now() - told_ < std::chrono::seconds(5)) return;
    told_ = Clock::now();
    QUIRE_LOG_INFO("{} {} of {} requests", progress_bar(static_cast<std::int64_t>(ended_ * 100 / work_.prompts.size())), ended_, work_.prompts.size());
  }

  engine::Engine& engine_;
  const EngineWork& work_;
  std::shared_ptr<engine::EventQueue> events_ = std::make_shared<engine::EventQueue>();
  std::size_t submitted_ = 0, ended_ = 0;
  Clock::time_point told_ = Clock::now();
};

// What both benches begin and end with.
struct Bench {
  Bench(std::string_view name, const config::Options& given) : command(name), options(given) {}
  ~Bench() {
    loaded.reset();  // its engine launches
    device::time_launches(nullptr);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::string_view command;
  const config::Options& options;
  LoadRequest load;
  std::vector<double> percentiles;
  std::optional<std::string> plot;
  device::LaunchTimes times;
  std::optional<Prepared> prepared;
  engine::HealthMonitor health;
  std::unique_ptr<LoadedModel> loaded;

  [[nodiscard]] const std::string& model() const { return prepared->config.api.served_names.front(); }
  [[nodiscard]] engine::Engine& engine() const { return *loaded->engine(); }
  [[nodiscard]] StepReading reading() const { return read_steps(loaded->step_clock(), times); }

  // Everything that can be refused is, before anything is loaded.
  Status open(std::int64_t default_input_len) {
    StartupTimeline timeline;
    auto made = prepare(options, timeline);
    if (!made.ok()) return made.error();
    prepared = std::move(made).value();
    if (options.boolean("print-config")) return {};
    load.input_len = options.integer("input-len").value_or(default_input_len);
    load.output_len = *options.integer("output-len");
    load.seed = prepared->config.engine.seed;
    auto shown = read_percentiles(options.text("percentiles"));
    if (!shown.ok()) return shown.error();
    percentiles = std::move(shown).value();
    QUIRE_RETURN_IF_ERROR(check_lengths(load, prepared->config.engine.scheduler.max_model_len));
    plot = options.given_text("plot");
    if (plot) QUIRE_RETURN_IF_ERROR(check_plot(*plot));
    log_banner(*prepared, BannerInputs::Server::kNone);
    auto model = LoadedModel::load(*prepared, std::make_shared<engine::Metrics>(metrics_config(prepared->config)), health, timeline);
    if (!model.ok()) return model.error();
    loaded = std::move(model).value();
    device::time_launches(&times);
    QUIRE_LOG_INFO("start-up: {}", timeline.text());
    return {};
  }
  template <class Report>
  int close(const Report& report) {
    const std::string text = options.boolean("json") ? boost::json::serialize(report_json(report)) + "\n" : report_text(report);
    const int code = print_answer(command, text);
    if (plot) {
      if (const Status written = write_plot(*plot, svg_text(report_chart(report))); !written.ok()) return report_error(command, written.error());
    }
    return code;
  }
};

Result<LatencyReport> measure_latency(Bench& bench) {
  const std::int64_t batch = *bench.options.integer("batch-size"), warmup = *bench.options.integer("num-iters-warmup"), repeats = *bench.options.integer("num-iters");
  if (batch > bench.prepared->config.engine.scheduler.max_num_seqs)
    QUIRE_LOG_WARN("--batch-size {}: --max-num-seqs lets {} run at a time, so a batch takes turns", batch, bench.prepared->config.engine.scheduler.max_num_seqs);
  LatencyReport report{.model = bench.model(), .batch_size = batch, .input_len = bench.load.input_len, .output_len = bench.load.output_len, .seconds = {}, .latency = {}, .steps = {}};
  LoadRandom random(bench.load.seed);
  StepReading from = bench.reading();
  auto told = Clock::now();
  for (std::int64_t i = -warmup; i < repeats; ++i) {
    if (i == 0) from = bench.reading();
    // Fresh prompts, so that no batch finds another's blocks in the prefix cache.
    const auto took = WorkRun(bench.engine(), random_work(bench.load, batch, bench.prepared->config.model.vocab_size, random)).run();
    if (!took.ok()) return took.error();
    if (i >= 0) report.seconds.push_back(took.value());
    if (Clock::now() - told < std::chrono::seconds(5)) continue;
    told = Clock::now();
    QUIRE_LOG_INFO("{} {}", i < 0 ? "warming up" : "measuring", progress_bar((i + 1 + (i < 0 ? warmup : 0)) * 100 / (i < 0 ? warmup : repeats)));
  }
  report.steps = breakdown(from, bench.reading(), std::accumulate(report.seconds.begin(), report.seconds.end(), 0.0));
  report.latency = distribution(report.seconds, bench.percentiles);
  return report;
}

Result<ThroughputReport> measure_throughput(Bench& bench) {
  LoadRandom random(bench.load.seed);
  const EngineWork work = random_work(bench.load, *bench.options.integer("num-prompts"), bench.prepared->config.model.vocab_size, random);
  const StepReading from = bench.reading();
  const auto took = WorkRun(bench.engine(), work).run();
  if (!took.ok()) return took.error();
  return ThroughputReport{.model = bench.model(),
                          .num_requests = static_cast<std::int64_t>(work.prompts.size()),
                          .input_tokens = work.input_tokens(),
                          .output_tokens = work.output_tokens(),
                          .seconds = took.value(),
                          .steps = breakdown(from, bench.reading(), took.value())};
}

}  // namespace

std::int64_t EngineWork::input_tokens() const {
  return std::accumulate(prompts.begin(), prompts.end(), std::int64_t{0}, [](std::int64_t n, const auto& p) { return n + static_cast<std::int64_t>(p.size()); });
}
std::int64_t EngineWork::output_tokens() const { return std::accumulate(output_lens.begin(), output_lens.end(), std::int64_t{0}); }

EngineWork random_work(const LoadRequest& request, std::int64_t num, std::int32_t vocab_size, LoadRandom& random) {
  const auto token = [&] { return static_cast<TokenId>(random.between(0, vocab_size - 1)); };
  std::vector<TokenId> prefix;
  for (std::int64_t i = 0; i < request.prefix_len; ++i) prefix.push_back(token());
  EngineWork out;
  for (std::int64_t i = 0; i < num; ++i) {
    out.prompts.push_back(prefix);
    for (std::int64_t n = draw_length(random, request.input_len, request.range_ratio); n > 0; --n) out.prompts.back().push_back(token());
    out.output_lens.push_back(static_cast<std::int32_t>(draw_length(random, request.output_len, request.range_ratio)));
  }
  return out;
}

Status check_lengths(const LoadRequest& request, std::int64_t max_model_len) {
  const auto longest = [&](std::int64_t length) { return length + length_spread(length, request.range_ratio); };
  const std::int64_t most = request.prefix_len + longest(request.input_len) + longest(request.output_len);
  if (most <= max_model_len) return {};
  return invalid("--input-len " + std::to_string(request.input_len) + ": prompts and answers of up to " + std::to_string(most) + " tokens do not fit the context of " + std::to_string(max_model_len) +
                     "; make --input-len, --output-len, --prefix-len or --random-range-ratio smaller",
                 "--input-len");
}

int bench_latency(const config::BenchLatencyCommand& command) {
  Bench bench("bench latency", command.options);
  if (const Status opened = bench.open(32); !opened.ok()) return report_error(bench.command, opened.error());
  if (command.options.boolean("print-config")) return print_config(bench.command, command.options, bench.prepared->config);
  const auto report = measure_latency(bench);
  return report.ok() ? bench.close(report.value()) : report_error(bench.command, report.error());
}

int bench_throughput(const config::BenchThroughputCommand& command) {
  Bench bench("bench throughput", command.options);
  bench.load.prefix_len = *command.options.integer("prefix-len");
  bench.load.range_ratio = *command.options.number("random-range-ratio");
  if (const Status opened = bench.open(LoadRequest{}.input_len); !opened.ok()) return report_error(bench.command, opened.error());
  if (command.options.boolean("print-config")) return print_config(bench.command, command.options, bench.prepared->config);
  const auto report = measure_throughput(bench);
  return report.ok() ? bench.close(report.value()) : report_error(bench.command, report.error());
}

}  // namespace quire::commands
