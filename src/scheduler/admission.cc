#include "scheduler/admission.h"

#include <string>

#include "base/checked.h"

namespace quire {

Status check_admission(std::size_t num_prompt, const SamplingParams& sampling, const SchedulerConfig& limits) {
  const auto tokens = static_cast<std::int64_t>(num_prompt);
  const std::string has = "the prompt has " + std::to_string(tokens) + " tokens";
  if (tokens == 0) return invalid("the prompt is empty; it needs at least one token", "prompt");
  if (tokens >= limits.max_model_len)
    return invalid(has + "; with a maximum length of " + std::to_string(limits.max_model_len) + " it may have at most " + std::to_string(limits.max_model_len - 1), "prompt");
  const std::int64_t needed = ceil_div<std::int64_t>(tokens + 1, limits.block_size);
  if (needed > limits.num_blocks)
    return invalid(has + " and needs " + std::to_string(needed) + " KV blocks of " + std::to_string(limits.block_size) + " tokens with its first output; the whole cache has " +
                       std::to_string(limits.num_blocks),
                   "prompt");
  if (sampling.max_tokens < 1) return invalid("max_tokens is " + std::to_string(sampling.max_tokens) + "; it must be at least 1", "max_tokens");
  const std::size_t entries = sampling_list_entries(sampling);
  if (entries > static_cast<std::size_t>(kMaxSamplingListEntries))
    return invalid("the lists of the sampling parameters take " + std::to_string(entries) + " entries; the limit is " + std::to_string(kMaxSamplingListEntries));
  return {};
}

}  // namespace quire
