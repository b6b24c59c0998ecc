// Reports of `quire bench serve`: text, JSON, chart.
#include <boost/json/array.hpp>
#include <iterator>

#include "base/log.h"
#include "base/text.h"
#include "commands/bench_serve.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

std::string number(double value) { return formatted("%.2f", value); }

struct NamedLatency {
  const char* key;    // of vLLM's result files: mean_ttft_ms
  const char* title;
  const Distribution ServeSummary::* values;
};
constexpr NamedLatency kLatencies[] = {{"ttft", "time to first token", &ServeSummary::ttft},
                                       {"tpot", "time per output token", &ServeSummary::tpot},
                                       {"itl", "gap between pieces", &ServeSummary::itl},
                                       {"e2el", "whole request", &ServeSummary::e2el}};

std::string load_text(const BenchServeRequest& r) {
  const LoadRequest& l = r.load;
  std::string out = std::to_string(l.num_prompts) + (l.turns == 1 ? " requests" : " conversations of " + std::to_string(l.turns) + " turns");
  out += l.request_rate ? ", " + number(*l.request_rate) + " a second (burstiness " + number(l.burstiness) + ")" : ", all at once";
  if (r.question.max_concurrency > 0) out += ", at most " + std::to_string(r.question.max_concurrency) + " at a time";
  if (r.dataset.empty()) out += "; " + std::to_string(l.input_len) + " tokens in" + (l.prefix_len > 0 ? " after " + std::to_string(l.prefix_len) + " shared" : "");
  else out += "; " + std::to_string(r.dataset.size()) + " prompts of a file";
  out += ", at most " + std::to_string(l.output_len) + " out";
  if (l.range_ratio > 0.0) out += ", lengths +-" + formatted("%.0f", 100.0 * l.range_ratio) + " %";
  return out + "; seed " + std::to_string(l.seed);
}

// What the numbers do not hold, said beside them.
std::vector<std::string> remarks(const ServeSummary& s) {
  std::vector<std::string> out;
  if (s.outputs_by_pieces > 0) out.push_back("the server counted no output tokens of " + std::to_string(s.outputs_by_pieces) + " requests: their pieces of text are counted instead");
  if (s.uncounted_inputs > 0) out.push_back("the server counted no input tokens of " + std::to_string(s.uncounted_inputs) + " requests: they are missing in the totals");
  if (s.without_text > 0) out.push_back(std::to_string(s.without_text) + " requests ended well and sent no text: they are in no latency");
  return out;
}

std::string table(const ServeSummary& s) {
  constexpr std::size_t kColumn = 11;
  std::string out = "  milliseconds            " + right_aligned("mean", kColumn) + right_aligned("deviation", kColumn) + right_aligned("median", kColumn);
  for (const auto& p : s.ttft.percentiles) out += right_aligned("p" + percentile_name(p.first), kColumn);
  out += right_aligned("of", kColumn) + "\n";
  const auto row = [&](const std::string& title, const Distribution& d) {
    out += "  " + left_aligned(title, 24) + right_aligned(number(d.mean * 1e3), kColumn) + right_aligned(number(d.deviation * 1e3), kColumn) + right_aligned(number(d.median * 1e3), kColumn);
    for (const auto& p : d.percentiles) out += right_aligned(number(p.second * 1e3), kColumn);
    out += right_aligned(std::to_string(d.count), kColumn) + "\n";
  };
  for (const NamedLatency& l : kLatencies) row(l.title, s.*l.values);
  row("sent after it was due", s.send_delay);
  return out;
}

}  // namespace

std::string percentile_name(double percentile) { return formatted("%g", percentile); }

std::string bench_serve_text(const BenchServeRequest& r, const ServeSummary& s) {
  std::string out = loggable(r.question.model) + " at " + r.target.url() + std::string(route_path(r.question.route)) + "\n  load        " + load_text(r) + "\n";
  out += "  requests    " + std::to_string(s.completed) + " completed, " + std::to_string(s.failed) + " failed, in " + number(s.duration_seconds) + " s; at most " + std::to_string(s.peak_concurrency) + " at a time\n";
  for (const auto& [reason, count] : s.failures) out += "  failed      " + std::to_string(count) + ": " + reason + "\n";
  out += "  tokens      " + std::to_string(s.input_tokens) + " in, " + std::to_string(s.output_tokens) + " out in " + std::to_string(s.num_pieces) + " pieces of text\n";
  out += "  throughput  " + number(s.requests_per_second()) + " requests/s, " + number(s.output_tokens_per_second()) + " output tokens/s, " + number(s.tokens_per_second()) + " tokens/s in all\n";
  for (const std::string& remark : remarks(s)) out += "  note        " + remark + "\n";
  return out + table(s);
}

json::object bench_serve_json(const BenchServeRequest& r, const ServeSummary& s) {
  json::object out{{"model_id", r.question.model},
                   {"base_url", r.target.url()},
                   {"endpoint", json::string(route_path(r.question.route))},
                   {"num_prompts", r.load.num_prompts},
                   {"turns", r.load.turns},
                   {"request_rate", r.load.request_rate ? json::value(*r.load.request_rate) : json::value("inf")},
                   {"burstiness", r.load.burstiness},
                   {"max_concurrency", r.question.max_concurrency > 0 ? json::value(r.question.max_concurrency) : json::value(nullptr)},
                   {"seed", r.load.seed},
                   {"duration", s.duration_seconds},
                   {"completed", s.completed},
                   {"failed", s.failed},
                   {"total_input_tokens", s.input_tokens},
                   {"total_output_tokens", s.output_tokens},
                   {"request_throughput", s.requests_per_second()},
                   {"output_throughput", s.output_tokens_per_second()},
                   {"total_token_throughput", s.tokens_per_second()},
                   {"max_concurrent_requests", s.peak_concurrency},
                   {"pieces", s.num_pieces},
                   {"outputs_counted_by_pieces", s.outputs_by_pieces},
                   {"inputs_not_counted", s.uncounted_inputs},
                   {"completed_without_text", s.without_text}};
  json::object failures;
  for (const auto& [reason, count] : s.failures) failures[reason] = count;
  out["failures"] = std::move(failures);
  const auto put = [&out](const std::string& key, const Distribution& d) {
    out["mean_" + key + "_ms"] = d.mean * 1e3;
    out["median_" + key + "_ms"] = d.median * 1e3;
    out["std_" + key + "_ms"] = d.deviation * 1e3;
    for (const auto& [percentile, value] : d.percentiles) out["p" + percentile_name(percentile) + "_" + key + "_ms"] = value * 1e3;
  };
  for (const NamedLatency& l : kLatencies) put(l.key, s.*l.values);
  put("send_delay", s.send_delay);
  return out;
}

BarChart bench_serve_chart(const BenchServeRequest& r, const ServeSummary& s) {
  BarChart chart;
  chart.title = r.question.model + ": " + number(s.output_tokens_per_second()) + " output tokens/s, " + number(s.requests_per_second()) + " requests/s";
  chart.subtitle = load_text(r) + "; " + std::to_string(s.failed) + " failed";
  chart.series = {"latency"};
  for (const NamedLatency& l : kLatencies) {
    const Distribution& d = s.*l.values;
    ChartPanel panel{.axis = std::string(l.title) + ", ms", .groups = {}, .reference = 0.0, .reference_label = {}};
    const auto add = [&](const std::string& label, double seconds) { panel.groups.push_back({label, {d.count == 0 ? ChartBar{std::nullopt, "none"} : ChartBar{seconds * 1e3, number(seconds * 1e3)}}}); };
    add("mean", d.mean);
    for (const auto& [percentile, value] : d.percentiles) add("p" + percentile_name(percentile), value);
    chart.panels.push_back(std::move(panel));
  }
  return chart;
}

}  // namespace quire::commands
