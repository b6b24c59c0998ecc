// A runner whose next token is a pure function of a sequence's tokens, with a gate and faults that tests control. It checks
// every plan against the state that plans before it built up, as a device would hold it.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/metrics.h"

namespace quire::engine::test {

inline constexpr TokenId kVocab = 97;

// The token after `history`.
[[nodiscard]] TokenId next_token(const std::vector<TokenId>& history);
// What a request must get: tokens and reason, computed without engine or scheduler.
struct Expected {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kLength;
};
[[nodiscard]] Expected expected_output(const GenerateRequest& request, std::int32_t max_model_len);

// Shared by the test and the executor that the engine owns.
class ExecutorControl {
 public:
  // Steps beyond those allowed wait in collect(). A fresh control allows all.
  void allow(std::int64_t num_steps);
  void allow_all();
  void hold();                                             // allow none beyond those already collected
  void fail_steps(int num);                                // the next `num` collects return an error
  void break_rows(std::function<bool(RequestId)> broken);  // their rows report unusable logits
  void wait_submitted(std::uint64_t num_steps);            // until that many steps have been submitted in all
  [[nodiscard]] std::uint64_t num_submitted() const;
  [[nodiscard]] std::vector<std::uint64_t> seeds() const;  // of every sequence's first upload, in order
  [[nodiscard]] std::int32_t most_in_flight() const;

 private:
  friend class FakeExecutor;
  mutable std::mutex mutex_;
  std::condition_variable cv_;
  std::int64_t permits_ = -1;  // -1: unlimited
  int failures_ = 0;
  std::function<bool(RequestId)> broken_;
  std::uint64_t submitted_ = 0;
  std::int32_t in_flight_ = 0, most_in_flight_ = 0;
  std::vector<std::uint64_t> seeds_;
};

class FakeExecutor final : public StepExecutor {
 public:
  explicit FakeExecutor(std::shared_ptr<ExecutorControl> control) : control_(std::move(control)) {}
  void submit(const StepPlan& plan) override;
  [[nodiscard]] Result<StepResult> collect() override;

 private:
  struct Row {
    RequestId request;
    std::vector<TokenId> tokens;
    std::int32_t num_prompt = 0, num_written = 0;
    std::size_t num_blocks = 0;
  };
  RowResult run_row(const RowPlan& plan, const std::function<bool(RequestId)>& broken);

  std::shared_ptr<ExecutorControl> control_;
  std::deque<StepPlan> plans_;
  std::unordered_map<StateRow, Row> rows_;
};

// What a consumer saw of one request.
struct Seen {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<FinishEvent> finishes;
  int num_prompt_events = 0;
  bool out_of_order = false;  // anything after the finish, or prompt log-probabilities after a token
};

class Consumer {
 public:
  Consumer() : queue_(std::make_shared<EventQueue>()) {}
  [[nodiscard]] const std::shared_ptr<EventQueue>& queue() const { return queue_; }
  // Reads events until `num` finishes were seen in all, or `num` tokens in all; false after 20 s.
  [[nodiscard]] bool wait_finishes(std::size_t num);
  [[nodiscard]] bool wait_tokens(std::size_t num);
  void read();
  [[nodiscard]] const Seen& of(RequestId id) { return seen_[id]; }
  [[nodiscard]] const std::unordered_map<RequestId, Seen>& all() const { return seen_; }
  [[nodiscard]] std::size_t num_finishes() const { return num_finishes_; }

 private:
  bool wait_for(const std::size_t& count, std::size_t num);
  std::shared_ptr<EventQueue> queue_;
  std::unordered_map<RequestId, Seen> seen_;
  std::size_t num_finishes_ = 0, num_tokens_ = 0;
};

// An engine on a fake executor, started.
struct Bench {
  explicit Bench(EngineConfig settings, bool start = true);
  EngineConfig config;
  std::shared_ptr<ExecutorControl> control = std::make_shared<ExecutorControl>();
  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<Engine> engine;
  Consumer consumer;

  ~Bench() { control->allow_all(); }
  RequestId submit(GenerateRequest request);  // must be accepted
};

[[nodiscard]] EngineConfig small_config(std::int32_t depth = 1);
[[nodiscard]] GenerateRequest make_request(std::vector<TokenId> prompt, std::int32_t max_tokens);
[[nodiscard]] std::vector<TokenId> make_prompt(std::int32_t num_tokens, std::uint64_t salt);
// The value of one sample line "name{labels} value"; -1 when it is not there.
[[nodiscard]] double sample(const std::string& exposition, const std::string& name_and_labels);

}  // namespace quire::engine::test
