// What `quire eval` prints.
#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/check.h"
#include "commands/eval.h"
#include "commands/kv_gate_report.h"

namespace quire::commands {
namespace {

std::string fixed(double x, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

std::string side_text(const EvalSide& s) {
  const Perplexity& p = s.perplexity;
  std::string name = s.kv_format;
  name.resize(std::max<std::size_t>(name.size(), 20), ' ');
  return "KV " + name + " perplexity " + fixed(p.perplexity, 4) + " +- " + fixed(p.standard_error, 4) + " over " + std::to_string(p.num_scored) + " tokens in " + std::to_string(p.num_windows) + " windows of " +
         std::to_string(p.window) + "\n";
}

boost::json::object side_json(const EvalSide& s) {
  const Perplexity& p = s.perplexity;
  return {{"kv_cache", s.kv_format},
          {"perplexity", p.perplexity},
          {"standard_error", p.standard_error},
          {"scored_tokens", p.num_scored},
          {"windows", p.num_windows},
          {"window", p.window},
          {"window_nll", boost::json::array(p.window_nll.begin(), p.window_nll.end())}};
}

}  // namespace

std::vector<std::int64_t> EvalResult::shared_tokens() const {
  std::vector<std::int64_t> out;
  if (!with_16_bit.has_value()) return out;
  for (std::size_t i = 0; i < asked.answers.size(); ++i) out.push_back(common_prefix(asked.answers[i], with_16_bit->answers[i]));
  return out;
}

BarChart eval_chart(const EvalResult& r) {
  QUIRE_CHECK(!r.gate.layers.empty() && r.with_16_bit.has_value()) << "no FP8 cache was measured";
  const double before = r.with_16_bit->perplexity.perplexity, after = r.asked.perplexity.perplexity;
  BarChart chart{.title = "KV cache " + r.asked.kv_format + " against " + r.with_16_bit->kv_format,
                 .subtitle = r.model + ", " + r.text + ": perplexity " + fixed(after, 4) + " against " + fixed(before, 4) + " (" + fixed(100.0 * (after / before - 1.0), 3) + " %)",
                 .series = {"keys", "values", "attention", "answers"}};
  // Fractions in percent: what is not finite has no bar and says so.
  const auto percent = [](double fraction) { return std::isfinite(fraction) ? ChartBar{100.0 * fraction, fixed(100.0 * fraction, 3)} : ChartBar{std::nullopt, "not finite"}; };
  ChartPanel clipped{.axis = "numbers clipped at the format's largest, %", .groups = {}, .reference = 100.0 * r.gate.limits.saturated, .reference_label = "limit", .num_series = 2};
  ChartPanel flushed{.axis = "numbers stored as zero that are not, %", .groups = {}, .reference_label = {}, .num_series = 2};
  ChartPanel attention{.axis = "attention's output, relative error, %", .groups = {}, .reference = 100.0 * r.gate.limits.attention_error, .reference_label = "limit", .first_series = 2, .num_series = 1};
  for (std::size_t i = 0; i < r.gate.layers.size(); ++i) {
    const selfcheck::KvGateLayer& l = r.gate.layers[i];
    const std::string layer = "layer " + std::to_string(i);
    clipped.groups.push_back({layer, {percent(l.keys.saturated), percent(l.values.saturated)}});
    flushed.groups.push_back({layer, {percent(l.keys.flushed), percent(l.values.flushed)}});
    attention.groups.push_back({layer, {percent(l.attention_error)}});
  }
  ChartPanel answers{.axis = "tokens of greedy answers before they part", .groups = {}, .reference_label = {}, .first_series = 3, .num_series = 1};
  const std::vector<std::int64_t> shared = r.shared_tokens();
  for (std::size_t i = 0; i < shared.size(); ++i)
    answers.groups.push_back({"answer " + std::to_string(i + 1), {{static_cast<double>(shared[i]), std::to_string(shared[i]) + " of " + std::to_string(r.asked.answers[i].size())}}});
  chart.panels = {std::move(clipped), std::move(flushed), std::move(attention), std::move(answers)};
  return chart;
}

std::string eval_text(const EvalResult& r) {
  std::string out = side_text(r.asked);
  if (r.with_16_bit.has_value()) {
    out += side_text(*r.with_16_bit);
    const double ratio = r.asked.perplexity.perplexity / r.with_16_bit->perplexity.perplexity - 1.0;
    out += "perplexity changes by " + fixed(100.0 * ratio, 3) + " %\n";
    const auto shared = r.shared_tokens();
    std::int64_t longest = 0, whole = 0;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      longest = std::max(longest, std::ssize(r.asked.answers[i]));
      whole += shared[i] == std::ssize(r.asked.answers[i]) ? 1 : 0;
    }
    std::string parts;
    for (const std::int64_t n : shared) parts += (parts.empty() ? "" : ", ") + std::to_string(n);
    out += "greedy answers of " + std::to_string(longest) + " tokens: " + std::to_string(whole) + " of " + std::to_string(shared.size()) + " equal; tokens before they part: " + parts + "\n";
  }
  if (!r.gate.layers.empty()) out += "\n" + kv_gate_text(r.gate);
  return out;
}

boost::json::object eval_json(const EvalResult& r) {
  boost::json::object out{{"model", r.model}, {"text", r.text}, {"tokens", r.num_tokens}, {"seconds", r.seconds}, {"result", side_json(r.asked)}};
  if (r.with_16_bit.has_value()) {
    out["with_16_bit_kv"] = side_json(*r.with_16_bit);
    out["perplexity_ratio"] = r.asked.perplexity.perplexity / r.with_16_bit->perplexity.perplexity;
    const auto shared = r.shared_tokens();
    out["greedy_shared_tokens"] = boost::json::array(shared.begin(), shared.end());
  }
  if (!r.gate.layers.empty()) out["kv_gate"] = kv_gate_json(r.gate);
  return out;
}

}  // namespace quire::commands
