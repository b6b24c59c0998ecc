#include "base/log.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "base/log_sink.h"
#include "base/suggest.h"

namespace quire {

Status init_logging(const std::string& level) {
  static constexpr std::array<std::string_view, 7> kLevels = {"trace", "debug", "info", "warning", "error", "critical", "off"};
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (level != kLevels[i]) continue;
    auto logger = std::make_shared<spdlog::logger>("quire", make_log_sink(STDERR_FILENO));
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    logger->set_level(static_cast<spdlog::level::level_enum>(i));
    spdlog::set_default_logger(std::move(logger));
    return {};
  }
  return invalid("QUIRE_LOG_LEVEL '" + level + "': must be trace, debug, info, warning, error, critical or off" + did_you_mean(level, kLevels), "QUIRE_LOG_LEVEL");
}

std::string loggable(std::string_view text, std::size_t max_bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, max_bytes)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    }
  }
  if (text.size() > max_bytes) out += "... (" + std::to_string(text.size()) + " bytes)";
  return out;
}

}  // namespace quire
