// Where log lines go: standard error, one write for each line, so that lines of several threads never mix. What cannot be written is
// lost and counted, never waited for beyond a bound: a full disk or a reader that has stopped must not stop a server.
#pragma once
#include <cstdint>
#include <memory>

namespace spdlog::sinks {
class sink;
}

namespace quire {

// A sink over file descriptor `fd`, which outlives it. The first line that can be written after lost ones is preceded by a warning with
// their number and the reason. Coloured when `fd` is a terminal that shows colours.
[[nodiscard]] std::shared_ptr<spdlog::sinks::sink> make_log_sink(int fd);

// Lines of all such sinks that could not be written, since the process began.
[[nodiscard]] std::int64_t lost_log_lines();

}  // namespace quire
