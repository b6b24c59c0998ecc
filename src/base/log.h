// Logs go to standard error, one line each; standard output belongs to results (and to --json).
#pragma once
#include <spdlog/spdlog.h>

#include <string>

#include "base/result.h"

namespace quire {

// Sets up the process-wide logger. `level` is one of trace, debug, info, warning, error, critical, off.
[[nodiscard]] Status init_logging(const std::string& level);

}  // namespace quire

#define QUIRE_LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define QUIRE_LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define QUIRE_LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define QUIRE_LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)
