// How long a command waits for its engine: while steps end it waits on, whatever the time.
#include "commands/event_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace quire::commands {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using std::chrono::milliseconds;

std::vector<engine::AddressedEvent> one_event() {
  std::vector<engine::AddressedEvent> out(1);
  return out;
}

TEST(EventWait, ALongPromptIsNoReasonToEnd) {
  engine::EventQueue events;
  std::uint64_t steps = 0;
  EventWait wait(events, [&] { return steps++; }, milliseconds(60));
  const auto from = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - from < milliseconds(300)) {
    const auto came = wait.next(milliseconds(10));
    ASSERT_TRUE(came.ok()) << "a step ended meanwhile: " << came.error().message;
    EXPECT_THAT(came.value(), IsEmpty());
  }
}

TEST(EventWait, AnEngineThatStandsStillIsSaid) {
  engine::EventQueue events;
  EventWait wait(events, [] { return std::uint64_t{7}; }, milliseconds(60));
  const auto from = std::chrono::steady_clock::now();
  auto came = wait.next(milliseconds(10));
  while (came.ok()) came = wait.next(milliseconds(10));
  EXPECT_GE(std::chrono::steady_clock::now() - from, milliseconds(60));
  EXPECT_EQ(came.error().code, ErrorCode::kInternal);
  EXPECT_THAT(came.error().message, HasSubstr("no token and no step"));
}

TEST(EventWait, EventsComeAndBeginTheTimeAnew) {
  engine::EventQueue events;
  EventWait wait(events, [] { return std::uint64_t{7}; }, milliseconds(100));
  const auto from = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - from < milliseconds(300)) {
    events.push(one_event());
    const auto came = wait.next(milliseconds(0));
    ASSERT_TRUE(came.ok()) << came.error().message;
    EXPECT_THAT(came.value(), SizeIs(1));
    const auto nothing = wait.next(milliseconds(10));
    ASSERT_TRUE(nothing.ok()) << nothing.error().message;
  }
}

}  // namespace
}  // namespace quire::commands
