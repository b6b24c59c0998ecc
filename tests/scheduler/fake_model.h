// A model and a device for scheduler tests. The next token is a pure function of all tokens before it, and so is the
// "KV" of a position; the device stores that value per pool slot and refuses to read anything else. It executes plans in
// step order, as late as the caller likes, with its own token histories and block tables, as a runner has them.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace quire::test {

struct FakeModel {
  std::int32_t vocab = 7;
  std::uint64_t fail_every = 0;  // 0: never; else about one sampled row in so many is unusable
  [[nodiscard]] std::uint64_t extend(std::uint64_t prefix, TokenId token) const;
  [[nodiscard]] std::uint64_t prefix_of(const std::vector<TokenId>& tokens) const;
  [[nodiscard]] TokenId next(std::uint64_t prefix) const;
  [[nodiscard]] bool fails(std::uint64_t prefix) const;
  [[nodiscard]] float score(std::uint64_t prefix, TokenId token) const;  // stands for a log-probability
};

struct Ending {
  std::vector<TokenId> outputs;
  FinishReason reason = FinishReason::kLength;
  std::optional<TokenId> stop_token;
};

// What a sequence gives when it runs alone on a pool that holds `pool_tokens` positions.
[[nodiscard]] Ending run_alone(const FakeModel& model, const SequenceSpec& spec, std::int32_t max_model_len, std::int64_t pool_tokens);

class FakeDevice {
 public:
  FakeDevice(const FakeModel& model, const SchedulerConfig& config);
  // Checks a plan when it is made, before it runs: classes and bounds of rows, rows and blocks not in use by steps in flight,
  // cached blocks already written. Empty: fine.
  [[nodiscard]] std::string accept(const StepPlan& plan);
  // Runs the oldest accepted plan. `error` says what a read found.
  [[nodiscard]] StepResult execute(std::string& error);
  // Drops the oldest accepted plan: the device failed half way, and its writes are garbage.
  void break_oldest();
  [[nodiscard]] std::size_t num_in_flight() const { return queue_.size(); }
  [[nodiscard]] const StepPlan& oldest() const { return queue_.front().plan; }

 private:
  struct RowState {
    RequestId request;
    std::vector<TokenId> history;
    std::vector<BlockId> table;
    std::int32_t num_prompt = 0;
    std::shared_ptr<const SamplingParams> sampling;
    bool broken = false;  // a failed step should have written here; nothing is expected of it until the next upload
  };
  struct Queued {
    StepPlan plan;
    std::set<std::int32_t> rows;
    std::set<std::int32_t> blocks;  // every block in the tables of these rows
  };

  [[nodiscard]] std::string accept_row(const RowPlan& row, const StepPlan& plan);
  [[nodiscard]] std::string accept_blocks(const StepPlan& plan);
  void enter(const StepPlan& plan);
  [[nodiscard]] std::string write(const RowPlan& row, std::set<std::size_t>& written);
  [[nodiscard]] std::string read_back(const RowPlan& row) const;
  [[nodiscard]] RowResult result_of(const RowPlan& row);
  [[nodiscard]] std::size_t slot(const RowState& state, std::int32_t position) const;

  FakeModel model_;
  SchedulerConfig config_;
  std::vector<std::uint64_t> pool_;           // by slot
  std::map<std::int32_t, RowState> rows_;     // as executed so far
  std::map<std::int32_t, RowState> planned_;  // as planned so far: tables and lengths, tokens where uploaded
  std::map<std::int32_t, std::int32_t> planned_length_;
  std::vector<Queued> queue_;
  std::uint64_t last_step_ = 0;
};

}  // namespace quire::test
