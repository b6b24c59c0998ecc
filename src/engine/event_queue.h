// Many requests' events on their way up: the engine thread pushes, one consumer (an http io thread, or a test) drains.
// Upward information is a queue, never a callback: the engine cannot be blocked or re-entered by a slow client.
#pragma once
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace quire::engine {

class EventQueue {
 public:
  EventQueue();
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Any thread. Batches: one wake-up for all events of a step.
  void push(std::vector<AddressedEvent> events);
  // Everything queued so far, in order; clears the wake-up.
  [[nodiscard]] std::vector<AddressedEvent> drain();
  // An eventfd that is readable while events are queued (for poll or asio's stream_descriptor). Owned by the queue.
  [[nodiscard]] int wake_fd() const { return wake_fd_; }
  // Blocks until events are queued or the time is over; true when there are some.
  [[nodiscard]] bool wait(int timeout_ms) const;

 private:
  mutable std::mutex mutex_;
  std::vector<AddressedEvent> events_;
  int wake_fd_;
};

}  // namespace quire::engine
