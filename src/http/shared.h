// What every connection of one server shares: settings, the service, the pool for requests, counters. Owned by Server; outlives
// every worker. The atomics are the only mutable part.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "api/service.h"
#include "config/resolved.h"
#include "http/text_pool.h"

namespace quire::http {

inline constexpr std::size_t kMaxHeaderBytes = 64 << 10;
inline constexpr std::size_t kMaxPipelinedBytes = 128 << 10;  // read ahead of the request being answered
inline constexpr std::size_t kMaxWaitingBytes = 4 << 20;      // of one stream while the client does not read

// Open things of one kind; somebody may wait until there are none.
class OpenCount {
 public:
  void add() { ++count_; }
  void remove() {
    if (--count_ > 0) return;
    const std::scoped_lock lock(mutex_);
    none_left_.notify_all();
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] bool wait_for_none(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return none_left_.wait_until(lock, deadline, [this] { return count_ == 0; });
  }

 private:
  std::atomic<int> count_ = 0;
  std::mutex mutex_;
  std::condition_variable none_left_;
};

struct Shared {
  Shared(config::HttpSettings s, std::shared_ptr<api::Service> svc)
      : settings(std::move(s)),
        service(std::move(svc)),
        body_budget_bytes(std::max<std::int64_t>(256 << 20, 4 * settings.max_body_bytes)),
        pool(std::max(1, settings.tokenizer_threads)) {}

  const config::HttpSettings settings;
  const std::shared_ptr<api::Service> service;
  const std::int64_t body_budget_bytes;  // of all bodies being read and worked on
  TextPool pool;
  OpenCount connections, requests, streams;
  std::atomic<std::int64_t> body_bytes = 0;
  std::atomic<bool> draining = false;
  std::atomic<bool> ending = false;  // the time to drain is over: what is open gets an error instead of its answer
};

// Counts one while it lives.
class Counted {
 public:
  explicit Counted(OpenCount& counter) : counter_(counter) { counter_.add(); }
  ~Counted() { counter_.remove(); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  OpenCount& counter_;
};

// A body's share of the budget.
class BodyLease {
 public:
  explicit BodyLease(Shared& shared) : shared_(shared) {}
  ~BodyLease() { shared_.body_bytes -= held_; }
  BodyLease(const BodyLease&) = delete;
  BodyLease& operator=(const BodyLease&) = delete;
  // Holds at least `bytes` from now on; false when all bodies together would be over the budget.
  [[nodiscard]] bool grow_to(std::int64_t bytes) {
    if (bytes <= held_) return true;
    const std::int64_t more = bytes - held_;
    if ((shared_.body_bytes += more) > shared_.body_budget_bytes) {
      shared_.body_bytes -= more;  // a refused share must not keep others out
      return false;
    }
    held_ = bytes;
    return true;
  }

 private:
  Shared& shared_;
  std::int64_t held_ = 0;
};

}  // namespace quire::http
