#include "base/log_sink.h"

#include <poll.h>
#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

namespace quire {
namespace {

// How long the first line waits for a reader that does not read. The lines after it do not wait: one pause, not one for each line.
constexpr int kPatienceMilliseconds = 1000;

std::atomic<std::int64_t> lost_in_all = 0;

constexpr std::string_view kPlain = "\033[m";
std::string_view colour_of(spdlog::level::level_enum level) {
  static constexpr std::array<std::string_view, 7> kColours = {"\033[37m", "\033[36m", "\033[32m", "\033[33m\033[1m", "\033[31m\033[1m", "\033[1m\033[41m", ""};
  return kColours[static_cast<std::size_t>(level)];
}

class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LogSink(int fd) : fd_(fd), coloured_(::isatty(fd) == 1 && spdlog::details::os::is_color_terminal()) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    if (!tell_losses() || !write_all(formatted(line))) lose();
  }
  void flush_() override {}  // nothing is held back

 private:
  std::string formatted(const spdlog::details::log_msg& line) {
    spdlog::memory_buf_t buffer;
    formatter_->format(line, buffer);
    std::string text(buffer.data(), buffer.size());
    if (coloured_ && line.color_range_end > line.color_range_start) {
      text.insert(line.color_range_end, kPlain);
      text.insert(line.color_range_start, colour_of(line.level));
    }
    return text;
  }

  // False: lines were lost and this could not be told either.
  bool tell_losses() {
    if (lost_ == 0) return true;
    const std::string words = "log: " + std::to_string(lost_) + (lost_ == 1 ? " line" : " lines") + " could not be written: " + reason_;
    if (!write_all(formatted(spdlog::details::log_msg(spdlog::source_loc{}, "quire", spdlog::level::warn, words)))) return false;
    lost_ = 0;
    return true;
  }

  void lose() {
    ++lost_;
    ++lost_in_all;
  }

  bool fail(const char* why) {
    reason_ = why;
    return false;
  }

  // In pieces that fit a pipe which poll calls writable, so that no piece blocks.
  bool write_all(std::string text) {
    if (torn_) text.insert(0, "\n");
    for (std::string_view rest = text; !rest.empty();) {
      pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
      const int got = ::poll(&ready, 1, lost_ == 0 ? kPatienceMilliseconds : 0);
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) return fail("nobody reads standard error");
      const ssize_t n = ::write(fd_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;  // EAGAIN: another process was quicker; poll waits with its bound
      if (n < 0) return fail(std::strerror(errno));
      rest.remove_prefix(static_cast<std::size_t>(n));
      torn_ = !rest.empty();  // half a line is there already: the next one must not go on in it
    }
    return true;
  }

  const int fd_;
  const bool coloured_;
  std::int64_t lost_ = 0;  // since the last line that was written
  bool torn_ = false;
  std::string reason_;
};

}  // namespace

std::shared_ptr<spdlog::sinks::sink> make_log_sink(int fd) { return std::make_shared<LogSink>(fd); }
std::int64_t lost_log_lines() { return lost_in_all; }

}  // namespace quire
