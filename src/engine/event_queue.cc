#include "engine/event_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace quire::engine {

EventQueue::EventQueue() : wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { QUIRE_CHECK_GE(wake_fd_, 0) << "eventfd"; }
EventQueue::~EventQueue() { ::close(wake_fd_); }

void EventQueue::push(std::vector<AddressedEvent> events) {
  if (events.empty()) return;
  const std::scoped_lock lock(mutex_);
  const bool was_empty = events_.empty();
  if (was_empty) {
    events_ = std::move(events);
    const std::uint64_t one = 1;
    QUIRE_CHECK_EQ(::write(wake_fd_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  } else {
    events_.insert(events_.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  }
}

std::vector<AddressedEvent> EventQueue::drain() {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_fd_, &count, sizeof count);  // EAGAIN when nothing was signalled
  return std::exchange(events_, {});
}

bool EventQueue::wait(int timeout_ms) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (auto left = std::chrono::milliseconds(timeout_ms);; left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())) {
    pollfd p{wake_fd_, POLLIN, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count()));
    if (ready >= 0 || errno != EINTR) return ready == 1;  // a signal that another part of the process handles is no end of the wait
  }
}

}  // namespace quire::engine
