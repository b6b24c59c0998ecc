#include "commands/serve_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "commands/bench_timing.h"

namespace quire::commands {
namespace {

double per_second(std::int64_t n, double seconds) { return seconds > 0.0 ? static_cast<double>(n) / seconds : 0.0; }

// The raw values behind a summary's distributions.
struct Latencies {
  std::vector<double> ttft, tpot, itl, e2el;

  void add(const RequestRecord& r, std::int64_t output_tokens) {
    const double first = r.pieces.front() - r.sent, last = r.pieces.back() - r.sent;
    ttft.push_back(first);
    e2el.push_back(last);
    for (std::size_t i = 1; i < r.pieces.size(); ++i) itl.push_back(r.pieces[i] - r.pieces[i - 1]);
    if (output_tokens > 1) tpot.push_back((last - first) / static_cast<double>(output_tokens - 1));
  }
};

}  // namespace

Distribution distribution(const std::vector<double>& values, const std::vector<double>& percentiles) {
  Distribution out;
  out.count = values.size();
  for (const double p : percentiles) out.percentiles.emplace_back(p, values.empty() ? 0.0 : quantile(values, p / 100.0));
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  out.median = quantile(values, 0.5);
  double squares = 0.0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  out.deviation = std::sqrt(squares / n);
  return out;
}

double ServeSummary::requests_per_second() const { return per_second(completed, duration_seconds); }
double ServeSummary::output_tokens_per_second() const { return per_second(output_tokens, duration_seconds); }
double ServeSummary::tokens_per_second() const { return per_second(input_tokens + output_tokens, duration_seconds); }

std::int64_t peak_overlap(const std::vector<std::pair<double, double>>& intervals) {
  std::vector<std::pair<double, int>> edges;  // at one time ends come before beginnings
  for (const auto& [from, to] : intervals) {
    edges.emplace_back(from, 1);
    edges.emplace_back(to, -1);
  }
  std::sort(edges.begin(), edges.end());
  std::int64_t now = 0, peak = 0;
  for (const auto& edge : edges) peak = std::max(peak, now += edge.second);
  return peak;
}

ServeSummary summarise(const std::vector<RequestRecord>& records, const std::vector<double>& percentiles) {
  ServeSummary out;
  Latencies latencies;
  std::vector<double> delays;
  std::vector<std::pair<double, double>> intervals;
  double first = HUGE_VAL, last = -HUGE_VAL;
  for (const RequestRecord& r : records) {
    first = std::min(first, r.sent);
    last = std::max(last, r.ended);
    intervals.emplace_back(r.sent, r.ended);
    delays.push_back(r.sent - r.due);
    if (!r.failure.empty()) {
      ++out.failed;
      ++out.failures[r.failure];
      continue;
    }
    ++out.completed;
    const auto num_pieces = static_cast<std::int64_t>(r.pieces.size());
    const std::int64_t output_tokens = r.output_tokens.value_or(num_pieces);
    out.num_pieces += num_pieces;
    out.input_tokens += r.input_tokens.value_or(0);
    out.output_tokens += output_tokens;
    out.uncounted_inputs += r.input_tokens.has_value() ? 0 : 1;
    out.outputs_by_pieces += r.output_tokens.has_value() ? 0 : 1;
    if (r.pieces.empty()) ++out.without_text;
    else latencies.add(r, output_tokens);
  }
  out.duration_seconds = records.empty() ? 0.0 : last - first;
  out.peak_concurrency = peak_overlap(intervals);
  out.ttft = distribution(latencies.ttft, percentiles);
  out.tpot = distribution(latencies.tpot, percentiles);
  out.itl = distribution(latencies.itl, percentiles);
  out.e2el = distribution(latencies.e2el, percentiles);
  out.send_delay = distribution(delays, percentiles);
  return out;
}

}  // namespace quire::commands
