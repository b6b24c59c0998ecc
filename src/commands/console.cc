#include "commands/console.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "config/command_line.h"

namespace quire::commands {

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

Result<Reader> write_output(std::string_view text) {
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

bool output_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

int report_error(std::string_view command, const Error& error) {
  const std::string name = "quire" + (command.empty() ? std::string() : " " + std::string(command));
  std::fprintf(stderr, "%s: error: %s\n", name.c_str(), error.to_string().c_str());
  return error.code == ErrorCode::kInvalidArgument ? config::kUsageExitCode : kFailureExitCode;
}

int print_answer(std::string_view command, std::string_view text, int code) {
  const auto written = write_output(text);
  return written.ok() ? code : report_error(command, written.error());
}

}  // namespace quire::commands
