#include "runner/text_step.h"

#include <memory>
#include <utility>

#include "base/checked.h"

namespace quire::runner {

StepPlan text_step(std::span<const TokenId> text, std::int64_t begin, std::int64_t count, std::int32_t block_size, std::uint64_t step_id) {
  const StateRow state{0};
  const RequestId request{1};
  StepPlan plan;
  plan.step_id = step_id;
  plan.num_tokens = static_cast<std::int32_t>(count);
  if (begin == 0) {
    auto sampling = std::make_shared<SamplingParams>();
    sampling->temperature = 0.0;
    plan.uploads.push_back(StateUpload{state, request, {text.begin(), text.end()}, static_cast<std::int32_t>(std::ssize(text)), sampling});
    BlockAppend blocks{state, {}};
    for (std::int64_t b = 0; b < ceil_div(std::ssize(text), std::int64_t{block_size}); ++b) blocks.blocks.push_back(BlockId{static_cast<std::int32_t>(b)});
    plan.block_appends.push_back(std::move(blocks));
  }
  const bool last = begin + count == std::ssize(text);
  plan.rows.push_back(RowPlan{.row = state, .request = request, .num_computed = static_cast<std::int32_t>(begin), .num_new = static_cast<std::int32_t>(count), .samples = last});
  return plan;
}

}  // namespace quire::runner
