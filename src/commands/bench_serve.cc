#include "commands/bench_serve.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "commands/bench_plot.h"
#include "commands/console.h"
#include "config/environment.h"
#include "config/problems.h"
#include "config/values.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "bench serve";
constexpr std::size_t kMaxPercentiles = 32;

ServeQuestion serve_question(const config::Options& options) {
  ServeQuestion out;
  out.model = options.model();
  out.route = route_named(options.text("endpoint"));
  out.ignore_eos = options.boolean("ignore-eos");
  out.temperature = options.number("temperature");
  out.max_concurrency = options.integer("max-concurrency").value_or(0);
  return out;
}

LoadRequest load_request(const config::Options& options) {
  LoadRequest out;
  out.num_prompts = *options.integer("num-prompts");
  out.turns = *options.integer("turns");
  out.request_rate = options.number("request-rate");
  out.burstiness = *options.number("burstiness");
  out.input_len = options.integer("input-len").value_or(LoadRequest{}.input_len);
  out.output_len = *options.integer("output-len");
  out.prefix_len = *options.integer("prefix-len");
  out.range_ratio = *options.number("random-range-ratio");
  out.seed = static_cast<std::uint64_t>(*options.integer("seed"));
  return out;
}

// The model that the server names, where the command line does not.
Status settle_model(http::Client& client, ServeQuestion& question) {
  if (!question.model.empty()) return {};
  const auto names = list_models(client);
  if (!names.ok()) return names.error();
  question.model = names->front();
  return {};
}

}  // namespace

Result<std::vector<double>> read_percentiles(const std::string& text) {
  std::vector<double> out;
  for (const std::string_view word : config::split_words(text, ',')) {
    const auto value = config::parse_number(word);
    if (!value || *value < 0.0 || *value > 100.0) return invalid("--percentiles " + config::quote_value(text) + ": must be numbers from 0 to 100, separated by commas, e.g. 50,90,99", "--percentiles");
    out.push_back(*value);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.empty() || out.size() > kMaxPercentiles) return invalid("--percentiles " + config::quote_value(text) + ": must be 1 to " + std::to_string(kMaxPercentiles) + " numbers, separated by commas, e.g. 50,90,99", "--percentiles");
  return out;
}

Result<BenchServeRequest> bench_serve_request(const config::Options& options) {
  BenchServeRequest out;
  auto target = http::parse_base_url(options.text("base-url"), "--base-url");
  if (!target.ok()) return target.error();
  out.target = std::move(target).value();
  auto percentiles = read_percentiles(options.text("percentiles"));
  if (!percentiles.ok()) return percentiles.error();
  out.percentiles = std::move(percentiles).value();
  out.question = serve_question(options);
  out.load = load_request(options);
  if (!options.given("dataset")) return out;
  if (options.given("input-len")) return invalid(options.spelling("input-len") + " and --dataset exclude each other: the file's prompts have their own lengths", options.spelling("input-len"));
  auto dataset = read_dataset(options.text("dataset"));
  if (!dataset.ok()) return dataset.error();
  out.dataset = std::move(dataset).value();
  return out;
}

int bench_serve(const config::BenchServeCommand& command) {
  const auto environment = config::read_environment(config::process_variables());
  if (!environment.ok()) return report_error(kCommand, environment.error());
  if (const Status logging = init_logging(environment->log_level.value_or("info")); !logging.ok()) return report_error(kCommand, logging.error());
  auto request = bench_serve_request(command.options);
  if (!request.ok()) return report_error(kCommand, request.error());
  const auto plot = command.options.given_text("plot");
  if (plot) {  // before anything is measured
    if (const Status writable = check_plot(*plot); !writable.ok()) return report_error(kCommand, writable.error());
  }
  const auto client = http::Client::open(request->target, environment->openai_api_key, client_limits(command.options));
  if (!client.ok()) return report_error(kCommand, client.error());
  if (const Status model = settle_model(*client.value(), request->question); !model.ok()) return report_error(kCommand, model.error());
  const auto rate = measure_words(*client.value(), request->question, request->load.input_len);
  if (!rate.ok()) return report_error(kCommand, rate.error());
  QUIRE_LOG_INFO("{} at {}: {:.2f} tokens a word and {:.0f} of every prompt; {} conversations", loggable(request->question.model), request->target.url(), rate->tokens_per_word, rate->fixed_tokens, request->load.num_prompts);
  if (!request->dataset.empty() && static_cast<std::int64_t>(request->dataset.size()) < request->load.num_prompts * request->load.turns)
    QUIRE_LOG_WARN("--dataset: {} prompts for {} requests: they are sent again", request->dataset.size(), request->load.num_prompts * request->load.turns);
  const std::vector<LoadConversation> load = make_load(request->load, rate.value(), request->dataset);
  const ServeSummary summary = summarise(drive(*client.value(), request->question, load), request->percentiles);
  const std::string text = command.options.boolean("json") ? boost::json::serialize(bench_serve_json(request.value(), summary)) + "\n" : bench_serve_text(request.value(), summary);
  const int code = print_answer(kCommand, text, summary.failed == 0 ? 0 : kFailureExitCode);
  if (plot) {
    if (const Status written = write_plot(*plot, svg_text(bench_serve_chart(request.value(), summary))); !written.ok()) return report_error(kCommand, written.error());
  }
  return code;
}

}  // namespace quire::commands
