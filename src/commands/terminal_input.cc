#include "commands/terminal_input.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace quire::commands {
namespace {

constexpr std::size_t kMaxLineBytes = 1u << 20;

// The handler may touch nothing else: a pipe whose write end never blocks.
int pipe_ends[2] = {-1, -1};
struct sigaction previous_action;

void on_interrupt(int) {
  const int saved = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = ::write(pipe_ends[1], &byte, 1);
  errno = saved;
}

}  // namespace

Result<std::unique_ptr<Interrupts>> Interrupts::open() {
  QUIRE_CHECK(pipe_ends[0] < 0) << "one at a time";
  if (::pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) != 0) return Error{ErrorCode::kResourceExhausted, std::string("cannot make a pipe to catch Ctrl-C with: ") + std::strerror(errno), {}};
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &previous_action);
  return std::unique_ptr<Interrupts>(new Interrupts());
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &previous_action, nullptr);
  for (int& end : pipe_ends) {
    ::close(end);
    end = -1;
  }
}

bool Interrupts::take() {
  std::array<char, 64> bytes;
  bool any = false;
  while (::read(pipe_ends[0], bytes.data(), bytes.size()) > 0) any = true;
  return any;
}

int Interrupts::fd() const { return pipe_ends[0]; }

// Ctrl-C throws away what is typed and not read yet: a read after poll() would then wait for the next line, deaf to the interrupt. So a
// terminal is read without waiting, through a description of its own: standard input's belongs to the shell, too.
LineInput::LineInput(Interrupts* interrupts) : interrupts_(interrupts) {
  if (const char* name = interrupts == nullptr ? nullptr : ::ttyname(STDIN_FILENO)) terminal_ = ::open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

LineInput::~LineInput() {
  if (terminal_ >= 0) ::close(terminal_);
}

Result<LineInput::Read> LineInput::next() {
  const int from = terminal_ >= 0 ? terminal_ : STDIN_FILENO;
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      Read out{What::kLine, buffer_.substr(0, end)};
      buffer_.erase(0, end + 1);
      if (out.line.ends_with('\r')) out.line.pop_back();
      return out;
    }
    if (ended_) return buffer_.empty() ? Read{What::kEnd, {}} : Read{What::kLine, std::exchange(buffer_, {})};
    if (buffer_.size() > kMaxLineBytes) return invalid("a line of standard input has more than " + std::to_string(kMaxLineBytes) + " bytes; it and what follows was not read");
    pollfd waits[2] = {{from, POLLIN, 0}, {interrupts_ == nullptr ? -1 : interrupts_->fd(), POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) return Error{ErrorCode::kIo, std::string("cannot wait for standard input: ") + std::strerror(errno), {}};
    if (interrupts_ != nullptr && interrupts_->take()) {
      buffer_.clear();
      return Read{What::kInterrupt, {}};
    }
    if (waits[0].revents == 0) continue;
    std::array<char, 65536> bytes;
    const ssize_t got = ::read(from, bytes.data(), bytes.size());
    if (got > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(got));
    if (got == 0) ended_ = true;
    if (got < 0 && errno != EINTR && errno != EAGAIN) return Error{ErrorCode::kIo, std::string("cannot read standard input: ") + std::strerror(errno), {}};
  }
}

}  // namespace quire::commands
