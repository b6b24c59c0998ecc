// Standard output and the closing words of a subcommand: the only place that writes either. Results go to standard output, whole or not
// at all as far as the exit status is concerned; logs (base/log.h) and errors go to standard error. Knows no subcommand's contents.
#pragma once
#include <string_view>

#include "base/result.h"

namespace quire::commands {

inline constexpr int kFailureExitCode = 1;  // a wrong command line has config::kUsageExitCode

// Once, before anything is opened: a reader that goes away must not end the process, and a standard stream that the caller closed must
// stay unusable instead of becoming the first file or socket that is opened.
void prepare_standard_streams();

enum class Reader : std::uint8_t { kThere, kGone };
// Writes all of `text` to standard output at once, unbuffered. kGone: the other end of the pipe was closed, which is its right and no
// error. Errors (kIo): the rest is lost.
[[nodiscard]] Result<Reader> write_output(std::string_view text);

// Somebody sees it at once: control characters would reach their screen.
[[nodiscard]] bool output_is_terminal();

// Says the error on standard error as `quire COMMAND`'s ("" for the program's own) and returns the exit code that belongs to it.
[[nodiscard]] int report_error(std::string_view command, const Error& error);

// The end of a command whose answer is `text`: `code`, or the exit code of a failed write after saying so.
[[nodiscard]] int print_answer(std::string_view command, std::string_view text, int code = 0);

}  // namespace quire::commands
