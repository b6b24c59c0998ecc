#include "engine/event_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
  pollfd p{wake_fd_, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

}  // namespace quire::engine
