// One consumer's end of the engine: an event queue and who each event is for. Owned and used by one http io thread (or a test);
// http sees a file descriptor and "there is news", never tokens.
#pragma once
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/ids.h"
#include "engine/event_queue.h"

namespace quire::api {

class Generation;

class Mailbox {
 public:
  Mailbox();
  ~Mailbox();  // every Generation is gone by then
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Readable while events wait; owned by the mailbox.
  [[nodiscard]] int wake_fd() const { return queue_->wake_fd(); }
  // Hands every waiting event to its Generation and then runs on_news once for each that had some.
  void deliver();
  // Blocks until events wait; false after `timeout_ms`. For tests and tools; io threads poll wake_fd().
  [[nodiscard]] bool wait(int timeout_ms) const { return queue_->wait(timeout_ms); }
  // Requests whose last event has not arrived.
  [[nodiscard]] std::size_t num_requests() const { return routes_.size(); }

 private:
  friend class Generation;
  struct Route {
    Generation* generation;
    std::size_t choice;
  };
  template <class Work>
  static void or_fail(Generation& generation, Work work);

  std::shared_ptr<engine::EventQueue> queue_;
  std::unordered_map<RequestId, Route> routes_;
};

}  // namespace quire::api
