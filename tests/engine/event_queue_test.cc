// The wait of a queue's consumer: as long as asked for, whatever signals arrive meanwhile.
#include "engine/event_queue.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace quire::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(EventQueue, WaitsForAnEvent) {
  EventQueue queue;
  EXPECT_FALSE(queue.wait(0));
  queue.push({AddressedEvent{RequestId{1}, TokenEvent{5, {}}}});
  EXPECT_TRUE(queue.wait(0));
  EXPECT_EQ(queue.drain().size(), 1u);
  EXPECT_FALSE(queue.wait(0));
}

// A handler without SA_RESTART, as profilers and fuzzers install: poll() ends early then.
TEST(EventQueue, SignalsDoNotEndTheWait) {
  struct sigaction action {}, before {};
  action.sa_handler = [](int) {};
  sigemptyset(&action.sa_mask);
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  EventQueue queue;
  const pthread_t waiter = ::pthread_self();
  std::atomic<bool> over = false;
  std::thread sender([&] {
    while (!over) {
      ::pthread_kill(waiter, SIGUSR1);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto begin = steady_clock::now();
  EXPECT_FALSE(queue.wait(50));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    queue.push({AddressedEvent{RequestId{1}, TokenEvent{5, {}}}});
  });
  EXPECT_TRUE(queue.wait(60'000));
  late.join();
  over = true;
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace quire::engine
