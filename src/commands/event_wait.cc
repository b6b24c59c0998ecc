#include "commands/event_wait.h"

#include <string>
#include <utility>

namespace quire::commands {

Result<std::vector<engine::AddressedEvent>> EventWait::next(std::chrono::milliseconds most) {
  const bool came = events_.wait(static_cast<int>(most.count()));
  const std::uint64_t steps = steps_done_();
  const auto now = Clock::now();
  if (came || std::exchange(last_steps_, steps) != steps) moved_ = now;
  if (came) return events_.drain();
  if (now - moved_ < patience_) return std::vector<engine::AddressedEvent>();
  return Error{ErrorCode::kInternal, "the engine is stuck: no token and no step for " + std::to_string(patience_.count() / 1000) + " s; a step that can take longer becomes shorter with a smaller --max-num-batched-tokens", {}};
}

}  // namespace quire::commands
