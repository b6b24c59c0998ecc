#include "commands/progress.h"

#include <algorithm>

#include "base/log.h"

namespace quire::commands {

std::string progress_bar(std::int64_t percent) {
  constexpr std::int64_t kCells = 10;
  const std::int64_t p = std::clamp<std::int64_t>(percent, 0, 100), full = p * kCells / 100;
  return "[" + std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(kCells - full), '-') + "] " + std::to_string(p) + " %";
}

void Progress::tell(std::int64_t done, std::int64_t total) {
  const std::int64_t percent = total <= 0 ? 100 : done * 100 / total;
  health_.set_progress(what_ + " " + std::to_string(percent) + " %");
  const auto now = Clock::now();
  if (now - logged_ < std::chrono::seconds(1)) return;
  logged_ = now;
  QUIRE_LOG_INFO("{} {}", what_, progress_bar(percent));
}

}  // namespace quire::commands
