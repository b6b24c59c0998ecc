// Reports of `quire bench latency` and `quire bench throughput`: text, JSON, chart.
#include <boost/json/array.hpp>
#include <utility>

#include "base/text.h"
#include "commands/bench_engine.h"
#include "commands/bench_serve.h"
#include "commands/bench_timing.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

std::string number(double value) { return formatted("%.2f", value); }

double rate(std::int64_t n, double seconds) { return seconds > 0.0 ? static_cast<double>(n) / seconds : 0.0; }

std::string batch_text(const LatencyReport& r) {
  return std::to_string(r.batch_size) + " requests of " + std::to_string(r.input_len) + " tokens in and " + std::to_string(r.output_len) + " out, " + std::to_string(r.seconds.size()) + " batches";
}

BarChart chart_of(std::string title, std::string subtitle) {
  BarChart chart;
  chart.title = std::move(title);
  chart.subtitle = std::move(subtitle);
  chart.series = {"measured"};
  return chart;
}

}  // namespace

std::string report_text(const LatencyReport& r) {
  const Distribution& d = r.latency;
  std::string out = r.model + ": " + batch_text(r) + "\n  a batch     mean " + duration_text(d.mean) + ", deviation " + duration_text(d.deviation);
  for (const auto& [percentile, value] : d.percentiles) out += ", p" + percentile_name(percentile) + " " + duration_text(value);
  out += "\n  tokens      " + number(rate(r.batch_size * r.output_len, d.mean)) + " output tokens/s\n";
  return out + breakdown_text(r.steps);
}

std::string report_text(const ThroughputReport& r) {
  return r.model + ": " + std::to_string(r.num_requests) + " requests, " + std::to_string(r.input_tokens) + " tokens in, " + std::to_string(r.output_tokens) + " out, in " + number(r.seconds) + " s\n  throughput  " +
         number(rate(r.num_requests, r.seconds)) + " requests/s, " + number(rate(r.output_tokens, r.seconds)) + " output tokens/s, " + number(rate(r.input_tokens + r.output_tokens, r.seconds)) + " tokens/s in all\n" + breakdown_text(r.steps);
}

json::object report_json(const LatencyReport& r) {
  json::object percentiles;
  for (const auto& [percentile, value] : r.latency.percentiles) percentiles[percentile_name(percentile)] = value;
  return {{"model_id", r.model},
          {"batch_size", r.batch_size},
          {"input_len", r.input_len},
          {"output_len", r.output_len},
          {"avg_latency", r.latency.mean},
          {"latencies", json::array(r.seconds.begin(), r.seconds.end())},
          {"percentiles", std::move(percentiles)},
          {"output_tokens_per_second", rate(r.batch_size * r.output_len, r.latency.mean)},
          {"step", breakdown_json(r.steps)}};
}

json::object report_json(const ThroughputReport& r) {
  return {{"model_id", r.model},
          {"elapsed_time", r.seconds},
          {"num_requests", r.num_requests},
          {"total_num_tokens", r.input_tokens + r.output_tokens},
          {"total_input_tokens", r.input_tokens},
          {"total_output_tokens", r.output_tokens},
          {"requests_per_second", rate(r.num_requests, r.seconds)},
          {"tokens_per_second", rate(r.input_tokens + r.output_tokens, r.seconds)},
          {"output_tokens_per_second", rate(r.output_tokens, r.seconds)},
          {"step", breakdown_json(r.steps)}};
}

BarChart report_chart(const LatencyReport& r) {
  BarChart chart = chart_of(r.model + ": " + duration_text(r.latency.mean) + " a batch", batch_text(r));
  ChartPanel panel{.axis = "time of a batch, ms", .groups = {}, .reference = 0.0, .reference_label = {}};
  const auto add = [&](const std::string& label, double seconds) { panel.groups.push_back({label, {ChartBar{seconds * 1e3, number(seconds * 1e3)}}}); };
  add("mean", r.latency.mean);
  for (const auto& [percentile, value] : r.latency.percentiles) add("p" + percentile_name(percentile), value);
  chart.panels = {std::move(panel), breakdown_panel(r.steps)};
  return chart;
}

BarChart report_chart(const ThroughputReport& r) {
  BarChart chart = chart_of(r.model + ": " + number(rate(r.output_tokens, r.seconds)) + " output tokens/s", std::to_string(r.num_requests) + " requests, " + std::to_string(r.input_tokens) + " tokens in, " + std::to_string(r.output_tokens) + " out");
  chart.panels = {breakdown_panel(r.steps)};
  return chart;
}

}  // namespace quire::commands
