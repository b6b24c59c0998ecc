// Log-probabilities of one row of logits, and the most likely tokens with their ranks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire::reference {

// log_softmax(l)_i = l_i - max - ln sum_j e^(l_j - max). A logit of -inf gives -inf. If any logit is NaN or +inf, or all are -inf
// (no distribution exists), every result is NaN. An empty row gives an empty row.
[[nodiscard]] std::vector<double> log_softmax(std::span<const double> logits);

struct TokenScore {
  TokenId token = 0;
  double logprob = 0.0;
};
// The `count` most likely tokens (all of them when there are fewer), descending; equal log-probabilities in rising token id. No entry
// of `logprobs` may be NaN.
[[nodiscard]] std::vector<TokenScore> top_logprobs(std::span<const double> logprobs, std::int32_t count);

// 1 + the number of tokens before `token` in the order of top_logprobs; the argmax has rank 1. (vLLM gives every member of a tie the
// tie's last place; with distinct values both agree.)
[[nodiscard]] std::int32_t rank_of(std::span<const double> logprobs, TokenId token);

}  // namespace quire::reference
