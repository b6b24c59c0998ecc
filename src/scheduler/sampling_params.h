// How one sequence's tokens are chosen and when it ends. Plain values, validated by api before the engine sees them (ranges:
// base/sampling_ranges.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire {

struct SamplingParams {
  // Temperatures below this are greedy (vLLM's rule).
  static constexpr double kGreedyTemperature = 1e-5;

  double temperature = 1.0;
  double top_p = 1.0;
  std::int32_t top_k = 0;  // 0: off
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;
  std::uint64_t seed = 0;           // always set: the request's, else one that the engine draws
  std::int32_t max_tokens = 16;     // >= 1
  std::int32_t min_tokens = 0;      // end tokens are masked until this many outputs exist
  bool ignore_eos = false;
  std::vector<TokenId> eos_token_ids;       // the model's, empty under ignore_eos
  std::vector<TokenId> stop_token_ids;      // the request's
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to logits, clamped to [-100, 100]
  std::vector<TokenId> allowed_token_ids;   // empty: all
  std::vector<std::vector<TokenId>> bad_words;  // token sequences that must not be completed
  std::optional<std::int32_t> logprobs;         // top-k per output token; 0: the chosen token's alone
  std::optional<std::int32_t> prompt_logprobs;  // the same for prompt tokens

  [[nodiscard]] bool greedy() const { return temperature < kGreedyTemperature; }
};

// Every device keeps a request's lists (bias, allowed ids, end tokens, bad words) in one array of this many entries; more is refused at
// admission, naming this limit.
inline constexpr std::int32_t kMaxSamplingListEntries = 2048;

// Entries that these lists take: two for a bias, one for an allowed or end token, one more than its tokens for a bad word.
[[nodiscard]] inline std::size_t sampling_list_entries(const SamplingParams& p) {
  std::size_t n = 2 * p.logit_bias.size() + p.allowed_token_ids.size() + (p.ignore_eos ? 0 : p.eos_token_ids.size()) + p.stop_token_ids.size();
  for (const auto& word : p.bad_words) n += word.empty() ? 0 : word.size() + 1;
  return n;
}

}  // namespace quire
