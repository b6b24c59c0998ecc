// What `quire eval` prints.
#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdio>
#include <numeric>

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
