// A runner that plays a script: output i of every request is token i of the script (on demand rotated by the seed), then the
// end token or the script again. Log-probabilities are a pure function of position and token. A gate holds steps back.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace quire::api::test {

class Script {
 public:
  void play(std::vector<TokenId> tokens);           // then the end token
  void repeat(std::vector<TokenId> tokens);         // for ever
  void rotate_by_seed();                            // sampled requests begin at script token seed % length
  void hold();                                      // no step ends
  void allow(int num_steps);                        // that many more
  void allow_all();
  void fail_next_step();
  void leave_no_token_after(std::int32_t num_tokens, std::uint64_t seed);  // for sequences with that seed
  // Whether token `token` at place `place` of a sequence is the most likely one.
  [[nodiscard]] static bool is_argmax(std::int32_t place, TokenId token) { return (place + token) % 3 != 0; }
  [[nodiscard]] static TokenLogprobs scores(std::int32_t place, TokenId token, std::int32_t top_k);

 private:
  friend class ScriptExecutor;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  bool repeat_ = false, rotate_ = false;
  std::int64_t permits_ = -1;  // -1: unlimited
  bool fail_ = false;
  std::int32_t dead_end_ = -1;
  std::uint64_t dead_end_seed_ = 0;
};

class ScriptExecutor final : public engine::StepExecutor {
 public:
  ScriptExecutor(std::shared_ptr<Script> script, TokenId end) : script_(std::move(script)), end_(end) {}
  void submit(const StepPlan& plan) override { plans_.push_back(plan); }
  [[nodiscard]] Result<StepResult> collect() override;

 private:
  [[nodiscard]] RowResult run_row(const RowPlan& plan);

  std::shared_ptr<Script> script_;
  TokenId end_;
  std::deque<StepPlan> plans_;
  std::unordered_map<StateRow, StateUpload> rows_;
};

}  // namespace quire::api::test
