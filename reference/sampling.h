// What the sampler means, in float64: from one row of logits and a sequence's parameters to the distribution its next token is drawn
// from. The specification of every device's sampler; the draw itself (Philox(seed, output index), philox.h) is not part of it.
//
// The stages, in this order (vLLM's):
//   1 allowed_token_ids  when not empty, every other token becomes impossible (-inf).
//   2 bad_words          the last token of a word becomes impossible when the outputs end with the tokens before it. Outputs alone
//                        count, not the prompt; a word of one token is always impossible; an empty word says nothing.
//   3 min_tokens         while there are fewer outputs than min_tokens: eos_token_ids and stop_token_ids become impossible.
//   4 logit_bias         limited to [-100, 100], then added; entries for one token add up. An impossible token stays impossible.
//   5 repetition_penalty p for tokens of the prompt or the outputs: l > 0 becomes l / p, else l * p (Keskar et al. 2019,
//                        arXiv:1909.05858, as vLLM has it: once for each token, however often it occurs).
//   6 frequency and presence penalties, outputs alone: l - frequency * count, then - presence when count > 0.
//   7 greedy             (temperature below SamplingParams::kGreedyTemperature) all probability on the largest logit, the lowest id of
//                        a tie; stages 8 to 11 do not apply.
//   8 temperature        l / temperature.
//   9 min_p              with probabilities over what is left: tokens below min_p * (largest probability) become impossible.
//  10 top_k              when above 0: the k largest stay; of equal ones the lower ids.
//  11 top_p              with probabilities over what is left: in descending order (ties: lower ids first) the smallest number of tokens
//                        whose sum reaches top_p stays, at least one. 1: all stay.
// What is left is normalised. Unlike vLLM, ties at the border of 10 are cut to exactly k.
#pragma once
#include <span>
#include <vector>

#include "base/ids.h"
#include "scheduler/sampling_params.h"

namespace quire::reference {

struct SamplingQuestion {
  std::span<const double> logits;  // [vocab]
  const SamplingParams& params;
  std::span<const TokenId> prompt;  // inside the vocabulary, like every id of `params`
  std::span<const TokenId> outputs;
};

// Logits after stages 1 to 6.
[[nodiscard]] std::vector<double> processed_logits(const SamplingQuestion& question);

struct Distribution {
  // [vocab]; sums to 1, or all 0 when no token may be chosen: every one is impossible, or the model's own logits hold a NaN or +inf,
  // masked later or not. The request fails then.
  std::vector<double> probabilities;
  // How close the nearest cut came to going the other way: the smallest relative distance of a probability to the min_p bound, of a
  // cumulative sum to top_p, or of the top_k border's two logits, 1 when nothing was cut. Below the error of float32 logits another
  // device may rightly keep one token more or less. Exact ties are no doubt: ids decide them everywhere.
  double margin = 1.0;
};
[[nodiscard]] Distribution sampling_distribution(const SamplingQuestion& question);

}  // namespace quire::reference
