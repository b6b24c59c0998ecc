#include "ops/sample.h"

#include <algorithm>
#include <bit>

namespace quire::ops {

Result<SamplingState> encode_sampling(const SamplingParams& p, std::int32_t num_prompt_tokens, std::vector<std::int32_t>& lists) {
  lists.clear();
  SamplingState s{};
  s.temperature = p.greedy() ? 0.0 : p.temperature;
  s.top_p = p.top_p;
  s.min_p = p.min_p;
  s.repetition_penalty = static_cast<float>(p.repetition_penalty);
  s.presence_penalty = static_cast<float>(p.presence_penalty);
  s.frequency_penalty = static_cast<float>(p.frequency_penalty);
  s.top_k = p.top_k;
  s.seed = p.seed;
  s.num_prompt_tokens = num_prompt_tokens;
  s.min_tokens = p.min_tokens;
  for (const auto& [id, value] : p.logit_bias) lists.push_back(id);
  for (const auto& [id, value] : p.logit_bias) lists.push_back(std::bit_cast<std::int32_t>(std::clamp(value, -100.0f, 100.0f)));
  s.num_bias = static_cast<std::int32_t>(p.logit_bias.size());
  lists.insert(lists.end(), p.allowed_token_ids.begin(), p.allowed_token_ids.end());
  s.num_allowed = static_cast<std::int32_t>(p.allowed_token_ids.size());
  if (!p.ignore_eos) lists.insert(lists.end(), p.eos_token_ids.begin(), p.eos_token_ids.end());
  lists.insert(lists.end(), p.stop_token_ids.begin(), p.stop_token_ids.end());
  s.num_end = static_cast<std::int32_t>((p.ignore_eos ? 0 : p.eos_token_ids.size()) + p.stop_token_ids.size());
  const std::size_t bad_begin = lists.size();
  for (const auto& word : p.bad_words) {
    if (word.empty()) continue;  // says nothing
    ++s.num_bad_words;
    lists.push_back(static_cast<std::int32_t>(word.size()));
    lists.insert(lists.end(), word.begin(), word.end());
  }
  s.num_bad_entries = static_cast<std::int32_t>(lists.size() - bad_begin);
  if (lists.size() > static_cast<std::size_t>(kMaxSamplingListEntries))
    return Error{ErrorCode::kInvalidArgument,
                 "logit_bias, allowed_token_ids, stop token ids and bad_words together take " + std::to_string(lists.size()) + " entries; the limit is " +
                     std::to_string(kMaxSamplingListEntries),
                 "logit_bias"};
  s.num_logprobs = p.logprobs.value_or(-1);
  s.num_prompt_logprobs = p.prompt_logprobs.value_or(-1);
  return s;
}

void sample(device::Stream& stream, const SampleParams& params, std::int64_t num_rows) {
  stream.launch(device::KernelId::kSample, device::Geometry{num_rows, 8 * params.vocab}, params);
}

}  // namespace quire::ops
