// Steps of a text that has the runner to itself: what measurements over a text are made of (KV gate, calibration).
#pragma once
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "scheduler/step_plan.h"

namespace quire::runner {

// Tokens [begin, begin + count) of `text`, which lies in state row 0 and in blocks 0, 1, ...; greedy. `step_id`: begin 0 is a sequence's
// first step and brings the text and its blocks along. The last step samples a token that nobody needs.
[[nodiscard]] StepPlan text_step(std::span<const TokenId> text, std::int64_t begin, std::int64_t count, std::int32_t block_size, std::uint64_t step_id);

}  // namespace quire::runner
