#include "commands/log_lines.h"

#include <algorithm>
#include <string_view>

#include "base/log.h"

namespace quire::commands {

void log_lines(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    constexpr std::string_view kWarning = "warning";
    if (line.starts_with(kWarning)) {
      QUIRE_LOG_WARN("{}", line.substr(std::min(line.size(), line.find_first_not_of(' ', kWarning.size()))));
    } else {
      QUIRE_LOG_INFO("{}", line);
    }
    at = end + 1;
  }
}

}  // namespace quire::commands
