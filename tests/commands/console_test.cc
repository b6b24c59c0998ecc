// What reaches a terminal of texts that others made.
#include "commands/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <string>

namespace quire::commands {
namespace {

TEST(Controls, NoneIsLeft) {
  EXPECT_EQ(without_controls("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(without_controls("\x1b[31m \r \x07 \x7f"), "?[31m ? ? ?");
  EXPECT_EQ(without_controls(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(without_controls("\xc2\x9b" "31m"), "?31m") << "U+009B is ESC [ in one character";
  for (int c = 0x80; c < 0xa0; ++c) EXPECT_EQ(without_controls(std::string("\xc2") + static_cast<char>(c)), "?") << c;
  EXPECT_EQ(without_controls("\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"), "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82") << "characters whose last bytes look like controls";
}

TEST(Controls, BytesThatAreNoUtf8AreNone) {
  EXPECT_EQ(without_controls("\x9b" "31m"), "?31m");
  EXPECT_EQ(without_controls("\xe0\x82\x9b"), "???") << "an overlong U+009B";
  EXPECT_EQ(without_controls("\xf0\x80\x82\x9b"), "????");
  EXPECT_EQ(without_controls("\xc0\x9b"), "??") << "an overlong escape";
  EXPECT_EQ(without_controls("\xf5\x80\x80\x80"), "????");
  EXPECT_EQ(without_controls("cut \xe2\x82"), "cut ??");
  EXPECT_EQ(without_controls("\xc2"), "?");
  EXPECT_EQ(without_controls("\x9b\xc2"), "??") << "a character that two pieces share is none in either";
}

// Puts another file in the place of standard output while it exists.
class StandardOutput {
 public:
  explicit StandardOutput(int fd) : was_(::dup(STDOUT_FILENO)) { ::dup2(fd, STDOUT_FILENO); }
  ~StandardOutput() {
    ::dup2(was_, STDOUT_FILENO);
    ::close(was_);
  }
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

 private:
  int was_;
};

std::string read_some(int fd) {
  std::array<char, 256> bytes;
  const ssize_t got = ::read(fd, bytes.data(), bytes.size());
  return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : std::string();
}
const std::string kHostile = "a\x1b[2J\xc2\x9b" "31m\x7f";

TEST(WriteOutput, ATerminalGetsNoOrders) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  const int end = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(end, 0);
  {
    const StandardOutput terminal(end);
    EXPECT_TRUE(write_output(kHostile).ok());
    EXPECT_EQ(print_answer("run", "\x1b" "c"), 0);
  }
  EXPECT_EQ(read_some(master), "a?[2J?31m??c");
  ::close(end);
  ::close(master);
}

TEST(WriteOutput, APipeGetsEveryByte) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  {
    const StandardOutput pipe(ends[1]);
    EXPECT_TRUE(write_output(kHostile).ok());
  }
  EXPECT_EQ(read_some(ends[0]), kHostile);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace quire::commands
