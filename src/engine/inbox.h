// The border between callers' threads and the engine thread: admission (state, queue limit, ids) and the commands on their way.
// Bounded by construction: at most one submit and one end per request that is open or unsettled, and a few cache resets. Holds its lock for short moments only.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/status_board.h"

namespace quire::engine {

struct SubmitCommand {
  RequestId id;
  GenerateRequest request;
  std::shared_ptr<EventQueue> events;
  std::chrono::steady_clock::time_point arrival;
};
struct EndCommand {
  RequestId id;
  FinishReason reason;  // kAbort or kStop; kLength settles an end that waited for the caller
};
struct ResetPrefixCacheCommand {
  std::shared_ptr<std::promise<bool>> done;
};
using Command = std::variant<SubmitCommand, EndCommand, ResetPrefixCacheCommand>;

class Inbox {
 public:
  using Clock = std::chrono::steady_clock;
  // `board` outlives the inbox; every change of state happens here, under the lock, so that nothing is admitted after it.
  Inbox(std::int32_t max_queue, StatusBoard& board) : max_queue_(static_cast<std::size_t>(max_queue)), board_(board) {}

  // Callers' side, any thread.
  void start();
  [[nodiscard]] Result<RequestId> submit(GenerateRequest request, std::optional<std::uint64_t> seed_base, std::shared_ptr<EventQueue> events);
  void end(RequestId id, FinishReason reason);  // the first call for an id counts
  void settle(RequestId id);                    // ignored unless the id's end waits for the caller
  [[nodiscard]] bool reset_prefix_cache(std::shared_ptr<std::promise<bool>> done);  // false: nobody will answer
  // Draining from now on; the engine thread leaves at `deadline` at the latest. False when the thread was never started.
  [[nodiscard]] bool close(Clock::time_point deadline);
  // Until the engine thread has left, at most `extra` beyond the deadline and this call; false: it has not.
  [[nodiscard]] bool wait_exit(Clock::duration extra);
  [[nodiscard]] std::int32_t num_open() const { return num_open_.load(); }
  [[nodiscard]] std::string failure() const;

  // Engine thread (take and release also by stop(), for an engine thread that is stuck).
  class EngineSide {
   public:
    explicit EngineSide(Inbox& inbox) : inbox_(inbox) {}
    [[nodiscard]] std::vector<Command> take(std::size_t max);
    void release(const std::vector<EndedRequest>& ended);
    void wait(std::optional<Clock::time_point> until);  // for commands, close, or the time
    [[nodiscard]] bool should_exit(Clock::time_point now) const;
    void set_failed(std::string why);
    void set_exited();

   private:
    Inbox& inbox_;
  };
  [[nodiscard]] EngineSide engine_side() { return EngineSide(*this); }

 private:
  [[nodiscard]] Status check_open() const;

  const std::size_t max_queue_;
  StatusBoard& board_;
  mutable std::mutex mutex_;
  std::condition_variable commands_cv_, exited_cv_;
  std::deque<Command> commands_;
  std::unordered_map<RequestId, bool> open_;  // true: its end is on its way
  std::unordered_set<RequestId> unsettled_;   // ended, but how waits for the caller; no place in the queue
  std::atomic<std::int32_t> num_open_ = 0;    // open_.size(), for readers without the lock
  std::uint64_t next_id_ = 1;
  int num_resets_ = 0;  // in commands_
  std::optional<Clock::time_point> stop_deadline_;
  std::string failure_;
  bool exited_ = false;
};

}  // namespace quire::engine
