#include "reference/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire::reference {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double& logit_of(std::vector<double>& logits, TokenId token) {
  QUIRE_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size()) << token << " of " << logits.size();
  return logits[static_cast<std::size_t>(token)];
}

bool contains(std::span<const TokenId> tokens, TokenId token) { return std::ranges::find(tokens, token) != tokens.end(); }

bool completes(std::span<const TokenId> outputs, std::span<const TokenId> word) {
  const std::span<const TokenId> before = word.first(word.size() - 1);
  return before.size() <= outputs.size() && std::ranges::equal(outputs.last(before.size()), before);
}

void forbid(const SamplingQuestion& q, std::vector<double>& logits) {
  const SamplingParams& p = q.params;
  if (!p.allowed_token_ids.empty())
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (!contains(p.allowed_token_ids, static_cast<TokenId>(i))) logits[i] = kImpossible;
  for (const auto& word : p.bad_words)
    if (!word.empty() && completes(q.outputs, word)) logit_of(logits, word.back()) = kImpossible;
  if (q.outputs.size() >= static_cast<std::size_t>(std::max(p.min_tokens, 0))) return;
  for (const TokenId t : p.eos_token_ids) logit_of(logits, t) = kImpossible;
  for (const TokenId t : p.stop_token_ids) logit_of(logits, t) = kImpossible;
}

void penalise(const SamplingQuestion& q, std::vector<double>& logits) {
  const SamplingParams& p = q.params;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const auto count = static_cast<double>(std::ranges::count(q.outputs, token));
    if (count > 0 || contains(q.prompt, token)) logits[i] = logits[i] > 0 ? logits[i] / p.repetition_penalty : logits[i] * p.repetition_penalty;
    logits[i] -= p.frequency_penalty * count;
    if (count > 0) logits[i] -= p.presence_penalty;
  }
}

// Softmax over the possible tokens. The caller has made sure that one is possible and all are below +inf.
std::vector<double> probabilities_of(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> out;
  double sum = 0.0;
  for (const double l : logits) sum += out.emplace_back(std::exp(l - largest));
  for (double& value : out) value /= sum;
  return out;
}

// Token ids, largest value first, ties by id.
std::vector<std::size_t> descending(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

void note(Distribution& d, double distance) { d.margin = std::min(d.margin, std::fabs(distance)); }

void cut_min_p(double min_p, std::vector<double>& logits, Distribution& d) {
  if (min_p <= 0.0) return;
  const std::vector<double> probabilities = probabilities_of(logits);
  const double bound = min_p * *std::ranges::max_element(probabilities);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kImpossible) continue;
    note(d, (probabilities[i] - bound) / bound);
    if (probabilities[i] < bound) logits[i] = kImpossible;
  }
}

void cut_top_k(std::int32_t top_k, std::vector<double>& logits, Distribution& d) {
  const auto k = static_cast<std::size_t>(std::max(top_k, 0));
  if (k == 0 || k >= logits.size()) return;
  const std::vector<std::size_t> order = descending(logits);
  const double last_kept = logits[order[k - 1]], first_cut = logits[order[k]];
  if (first_cut != kImpossible && last_kept != first_cut)
    note(d, (last_kept - first_cut) / std::max({1.0, std::fabs(last_kept), std::fabs(first_cut)}));
  for (std::size_t i = k; i < order.size(); ++i) logits[order[i]] = kImpossible;
}

void cut_top_p(double top_p, std::vector<double>& logits, Distribution& d) {
  if (top_p >= 1.0) return;
  const std::vector<double> probabilities = probabilities_of(logits);
  const std::vector<std::size_t> order = descending(logits);  // by logit: equal logits are ties, whatever exp makes of close ones
  double sum = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && sum >= top_p) {
      logits[order[i]] = kImpossible;
      continue;
    }
    sum += probabilities[order[i]];
    note(d, (sum - top_p) / top_p);
  }
}

}  // namespace

std::vector<double> processed_logits(const SamplingQuestion& question) {
  std::vector<double> logits(question.logits.begin(), question.logits.end());
  forbid(question, logits);
  for (const auto& [token, bias] : question.params.logit_bias) logit_of(logits, token) += std::clamp(static_cast<double>(bias), -100.0, 100.0);
  penalise(question, logits);
  return logits;
}

Distribution sampling_distribution(const SamplingQuestion& question) {
  std::vector<double> logits = processed_logits(question);
  Distribution result{std::vector<double>(logits.size(), 0.0), 1.0};
  const bool unusable = std::ranges::any_of(question.logits, [](double l) { return std::isnan(l) || l == -kImpossible; });
  if (unusable || std::ranges::all_of(logits, [](double l) { return l == kImpossible; })) return result;
  const SamplingParams& p = question.params;
  if (p.greedy()) {
    result.probabilities[descending(logits).front()] = 1.0;
    return result;
  }
  for (double& l : logits) l /= p.temperature;
  cut_min_p(p.min_p, logits, result);
  cut_top_k(p.top_k, logits, result);
  cut_top_p(p.top_p, logits, result);
  result.probabilities = probabilities_of(logits);
  return result;
}

}  // namespace quire::reference
