// Ctrl-C as an event, and a system that has nothing left to make one with.
#include "commands/terminal_input.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace quire::commands {
namespace {

using ::testing::HasSubstr;

TEST(Interrupts, AreTakenOnce) {
  const auto interrupts = Interrupts::open();
  ASSERT_TRUE(interrupts.ok()) << interrupts.error().message;
  EXPECT_FALSE(interrupts.value()->take());
  ::raise(SIGINT);
  ::raise(SIGINT);
  EXPECT_TRUE(interrupts.value()->take());
  EXPECT_FALSE(interrupts.value()->take());
}

TEST(Interrupts, NoDescriptorsLeftIsAnErrorAndNoCrash) {
  rlimit was{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &was), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit full{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = was.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  {
    const auto interrupts = Interrupts::open();
    ::setrlimit(RLIMIT_NOFILE, &was);
    ASSERT_FALSE(interrupts.ok());
    EXPECT_THAT(interrupts.error().message, HasSubstr("Too many open files"));
  }
  EXPECT_TRUE(Interrupts::open().ok()) << "and later it works";
}

}  // namespace
}  // namespace quire::commands
