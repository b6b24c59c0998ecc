// What could never run, whoever asks: the engine says it to the caller at once, the scheduler holds to it. Pure.
#pragma once
#include <cstddef>

#include "base/result.h"
#include "scheduler/sampling_params.h"
#include "scheduler/scheduler_config.h"

namespace quire {

// Refuses (kInvalidArgument, naming the field) an empty prompt, one that leaves no room for an output within max_model_len or that needs
// more blocks with its first output than the pool has, max_tokens below 1, and lists of more entries than a state row holds.
[[nodiscard]] Status check_admission(std::size_t num_prompt, const SamplingParams& sampling, const SchedulerConfig& limits);

}  // namespace quire
