// Every open request, from acceptance to its one FinishEvent: gathers prompt log-probabilities, measures times, builds events.
// A request leaves the ledger in the same call that makes its FinishEvent, and nothing is made for an id that is not in it:
// that is what "exactly one terminal event" rests on. One thread at a time (the engine guards it).
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/event_queue.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "scheduler/scheduler.h"

namespace quire::engine {

using Clock = std::chrono::steady_clock;

// Which requests get a line at info level when they end, rather than at debug level.
enum class RequestLog : unsigned char { kDebug, kInfo };

struct OpenRequest {
  std::shared_ptr<EventQueue> events;
  std::shared_ptr<SampleGroup> samples;  // null: the only sample of its prompt
  std::string client_id;
  std::int32_t num_prompt_tokens = 0, max_tokens = 0;
  bool wants_prompt_logprobs = false;
  double timeout_seconds = 0;  // 0: none
  GenerateRequest::EndKnownBy end_known_by = GenerateRequest::EndKnownBy::kEngine;
  Clock::time_point arrival;

  // Filled by the ledger.
  std::optional<Clock::time_point> deadline, scheduled, first_token, last_token;
  std::int32_t num_cached_tokens = 0, num_output_tokens = 0;
  std::vector<TokenLogprobs> prompt_logprobs;
};

class RequestLedger {
 public:
  RequestLedger(std::shared_ptr<Metrics> metrics, RequestLog log) : metrics_(std::move(metrics)), log_(log) {}

  void open(RequestId id, OpenRequest request);
  [[nodiscard]] std::size_t size() const { return open_.size(); }
  [[nodiscard]] std::vector<RequestId> ids() const;
  // The id is in a step that is about to run; the first call sets its queue time. Unknown ids are ignored, here and below.
  void mark_scheduled(RequestId id, Clock::time_point now);
  // Tokens, log-probabilities and finish of one sequence. False: the output contradicts the request (our own bug); the
  // request has been ended with kInternal and the scheduler must forget it.
  [[nodiscard]] bool deliver(SequenceOutput output, Clock::time_point now);
  // Ends an open request, or settles an unsettled one: kStop when the caller found a stop string, else as it ended.
  void finish(RequestId id, FinishReason reason, std::optional<Error> error, Clock::time_point now);
  void settle_all();  // as they ended: nobody will say more

  // Requests whose limit has passed; each ends with kAbort and an error that names the limit.
  [[nodiscard]] std::vector<RequestId> finish_expired(Clock::time_point now);

  // Ended since the last call.
  [[nodiscard]] std::vector<EndedRequest> take_ended() { return std::exchange(ended_, {}); }
  // Hands the events made so far to their queues, one push per queue.
  void push_events();

 private:
  struct Batch {
    std::shared_ptr<EventQueue> queue;
    std::vector<AddressedEvent> events;
  };
  using Entry = std::unordered_map<RequestId, OpenRequest>::iterator;
  void emit(const OpenRequest& request, RequestId id, RequestEvent event);
  void emit_token(OpenRequest& request, RequestId id, TokenEvent token, Clock::time_point now);
  void end(Entry entry, FinishEvent finish, Clock::time_point now);
  void record_end(const OpenRequest& request, const FinishEvent& finish, Clock::time_point now);
  void settle(RequestId id, FinishReason reason);

  std::shared_ptr<Metrics> metrics_;
  RequestLog log_;
  std::unordered_map<RequestId, OpenRequest> open_;
  std::set<std::pair<Clock::time_point, RequestId>> deadlines_;
  struct Unsettled {
    OpenRequest request;
    FinishEvent finish;
    Clock::time_point end;
  };
  std::unordered_map<RequestId, Unsettled> unsettled_;
  std::vector<EndedRequest> ended_;
  std::unordered_map<EventQueue*, Batch> batches_;
};

}  // namespace quire::engine
