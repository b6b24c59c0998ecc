// Standard output and the words beside it: the only place that writes either. Results go to standard output, whole or not at all as far as
// the exit status is concerned; logs (base/log.h) and errors go to standard error. Whoever made a text (a model, a server, a file), a
// terminal gets no orders from it. Knows no subcommand's contents.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::commands {

inline constexpr int kFailureExitCode = 1;  // a wrong command line has config::kUsageExitCode

// Once, before anything is opened: a reader that goes away must not end the process, and a standard stream that the caller closed must
// stay unusable instead of becoming the first file or socket that is opened.
void prepare_standard_streams();

enum class Reader : std::uint8_t { kThere, kGone };
// Writes all of `text` to standard output at once, unbuffered; to a terminal without its controls, else as it is. kGone: the other end of
// the pipe was closed, which is its right and no error. Errors (kIo): the rest is lost.
[[nodiscard]] Result<Reader> write_output(std::string_view text);

// `text` with a question mark for each character that a terminal may take for an order: those below a space but line end and tab, DEL, the
// C1 controls (U+0080 to U+009F; U+009B is the same as ESC [), and bytes that are no UTF-8, which an eight-bit terminal reads as those.
[[nodiscard]] std::string without_controls(std::string_view text);

// Words for a person, on standard error: they never mix with what a program reads from standard output. Without their controls.
void say_part(std::string_view text);
void say(std::string_view line);

// Says the error on standard error as `quire COMMAND`'s ("" for the program's own) and returns the exit code that belongs to it.
[[nodiscard]] int report_error(std::string_view command, const Error& error);

// The end of a command whose answer is `text`: `code`, or the exit code of a failed write after saying so.
[[nodiscard]] int print_answer(std::string_view command, std::string_view text, int code = 0);

}  // namespace quire::commands
