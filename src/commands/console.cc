#include "commands/console.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "config/command_line.h"

namespace quire::commands {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none. Overlong forms are none: a lax terminal reads controls in them.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t size = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  return overlong ? 0 : size;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first == 0xc2) return static_cast<unsigned char>(character[1]) < 0xa0;
  return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
}

Result<Reader> write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return Reader::kGone;
    } else if (errno == EAGAIN) {  // somebody made the terminal or pipe that we share non-blocking
      pollfd writable{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return Error{ErrorCode::kIo, std::string("cannot write standard output: ") + std::strerror(errno), {}};
    }
  }
  return Reader::kThere;
}

}  // namespace

void prepare_standard_streams() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file at the limit of its size is a failed write like a full disk
  // The lowest free descriptor is taken, so in this order each closed one gets its own place. Opened for the wrong direction: a write to a
  // closed standard output keeps failing.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    [[maybe_unused]] const int opened = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

Result<Reader> write_output(std::string_view text) { return ::isatty(STDOUT_FILENO) == 1 ? write_all(without_controls(text)) : write_all(text); }

std::string without_controls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    if (size == 0 || is_control(character)) out += '?';
    else out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

void say_part(std::string_view text) { std::fputs(without_controls(text).c_str(), stderr); }
void say(std::string_view line) { say_part(std::string(line) + "\n"); }

int report_error(std::string_view command, const Error& error) {
  const std::string name = "quire" + (command.empty() ? std::string() : " " + std::string(command));
  say(name + ": error: " + error.to_string());
  return error.code == ErrorCode::kInvalidArgument ? config::kUsageExitCode : kFailureExitCode;
}

int print_answer(std::string_view command, std::string_view text, int code) {
  const auto written = write_output(text);
  return written.ok() ? code : report_error(command, written.error());
}

}  // namespace quire::commands
