// Logs go to standard error, one line each; standard output belongs to results (and to --json).
#pragma once
#include <spdlog/spdlog.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Sets up the process-wide logger. `level` is one of trace, debug, info, warning, error, critical, off.
[[nodiscard]] Status init_logging(const std::string& level);

// Text that a client or a file chose, for one line of the log: bytes that are not visible ASCII or space become \xNN, and what is
// longer than `max_bytes` is cut, with its length.
[[nodiscard]] std::string loggable(std::string_view text, std::size_t max_bytes = 200);

}  // namespace quire

#define QUIRE_LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define QUIRE_LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define QUIRE_LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define QUIRE_LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)
