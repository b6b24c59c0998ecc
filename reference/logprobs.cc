#include "reference/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire::reference {
namespace {

bool comes_before(const TokenScore& a, const TokenScore& b) { return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token); }

std::vector<TokenScore> in_order(std::span<const double> logprobs) {
  std::vector<TokenScore> all;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    QUIRE_CHECK(!std::isnan(logprobs[i])) << "token " << i;
    all.push_back({static_cast<TokenId>(i), logprobs[i]});
  }
  std::ranges::sort(all, comes_before);
  return all;
}

}  // namespace

std::vector<double> log_softmax(std::span<const double> logits) {
  std::vector<double> out(logits.begin(), logits.end());
  if (out.empty()) return out;
  const bool any_nan = std::ranges::any_of(logits, [](double l) { return std::isnan(l); });
  const double largest = any_nan ? 0.0 : *std::ranges::max_element(logits);
  if (any_nan || std::isinf(largest)) {
    std::ranges::fill(out, std::numeric_limits<double>::quiet_NaN());
    return out;
  }
  double sum = 0.0;
  for (const double l : logits) sum += std::exp(l - largest);
  for (double& l : out) l = l - largest - std::log(sum);
  return out;
}

std::vector<TokenScore> top_logprobs(std::span<const double> logprobs, std::int32_t count) {
  QUIRE_CHECK_GE(count, 0);
  std::vector<TokenScore> all = in_order(logprobs);
  if (all.size() > static_cast<std::size_t>(count)) all.resize(static_cast<std::size_t>(count));
  return all;
}

std::int32_t rank_of(std::span<const double> logprobs, TokenId token) {
  QUIRE_CHECK(token >= 0 && static_cast<std::size_t>(token) < logprobs.size()) << token;
  const std::vector<TokenScore> all = in_order(logprobs);
  const auto place = std::ranges::find(all, token, &TokenScore::token);
  return static_cast<std::int32_t>(place - all.begin()) + 1;
}

}  // namespace quire::reference
