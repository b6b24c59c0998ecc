// Logs that cannot be written: lost lines are counted and told once, lines are never mixed, and nobody waits for long.
#include "base/log_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "kit/file_limit.h"
#include "kit/slowdown.h"
#include "kit/temp_dir.h"

namespace quire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class Log {
 public:
  explicit Log(int fd) : fd_(fd), logger_("test", make_log_sink(fd)), lost_before_(lost_log_lines()) { logger_.set_pattern("%l: %v"); }
  ~Log() { ::close(fd_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  void line(const std::string& text) { logger_.info("{}", text); }
  [[nodiscard]] std::int64_t num_lost() const { return lost_log_lines() - lost_before_; }

 private:
  int fd_;
  spdlog::logger logger_;
  std::int64_t lost_before_;
};

TEST(LogSink, AFullDeviceLosesLinesAndCountsThem) {
  Log log(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  for (int i = 0; i < 5; ++i) log.line("nobody reads this");
  EXPECT_EQ(log.num_lost(), 5);
}

// The file takes 100 bytes: a whole line, half of the second, nothing of the third. Emptied, as a log rotation does, it takes lines again.
TEST(LogSink, RoomAgainTellsTheLossesOnceAndTearsNoLine) {
  const test::TempDir folder;
  const std::string path = folder.write("log", "");
  Log log(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  {
    const test::FileLimit limit(100);
    for (const char c : {'a', 'b', 'c'}) log.line(std::string(60, c));
    EXPECT_EQ(log.num_lost(), 2);
    const std::string full = read_file(path, 1000).value();
    EXPECT_EQ(full, "info: " + std::string(60, 'a') + "\ninfo: " + std::string(27, 'b'));
  }
  log.line("room again");
  log.line("and more");
  const std::string after = read_file(path, 1000).value();
  EXPECT_THAT(after, EndsWith("bbb\nwarning: log: 2 lines could not be written: File too large\ninfo: room again\ninfo: and more\n"));
  EXPECT_EQ(log.num_lost(), 2);
}

TEST(LogSink, AReaderThatDoesNotReadStopsNobody) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Log log(ends[1]);
  const auto begin = std::chrono::steady_clock::now();
  const std::string long_line(1000, 'x');
  for (int i = 0; i < 500; ++i) log.line(long_line);  // a pipe holds 64 KiB
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5 * test::kSlowdown)) << "one pause, not one for each line";
  const std::int64_t lost = log.num_lost();
  EXPECT_GT(lost, 400);
  EXPECT_LT(lost, 500);
  std::string got;
  const auto drain = [&] {
    std::vector<char> piece(1 << 17);
    const ssize_t n = ::read(ends[0], piece.data(), piece.size());
    ASSERT_GT(n, 0);
    got.append(piece.data(), static_cast<std::size_t>(n));
  };
  drain();
  EXPECT_THAT(got, Not(HasSubstr("could not be written")));
  log.line("reads again");
  drain();
  EXPECT_THAT(got, EndsWith("warning: log: " + std::to_string(lost) + " lines could not be written: nobody reads standard error\ninfo: reads again\n"));
  ::close(ends[0]);
}

TEST(LogSink, AReaderThatIsGoneIsALossLikeAnother) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  Log log(ends[1]);
  ::close(ends[0]);
  log.line("to nobody");
  EXPECT_EQ(log.num_lost(), 1);
  ::signal(SIGPIPE, handler);
}

TEST(LogSink, LinesOfThreadsDoNotMix) {
  const test::TempDir folder;
  const std::string path = folder.write("log", "");
  Log log(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  {
    std::vector<std::jthread> threads;
    for (const char c : {'a', 'b', 'c', 'd'}) threads.emplace_back([&log, c] { for (int i = 0; i < 50; ++i) log.line(std::string(9000, c)); });
  }
  const std::string text = read_file(path, 1 << 22).value();
  std::size_t num_lines = 0;
  for (std::size_t at = 0; at < text.size(); ++num_lines) {
    const std::size_t end = text.find('\n', at);
    ASSERT_EQ(end - at, 9006u);
    EXPECT_EQ(text.find_first_not_of(text[at + 6], at + 6), end);
    at = end + 1;
  }
  EXPECT_EQ(num_lines, 200u);
}

}  // namespace
}  // namespace quire
