// Hand-driven scheduler for table tests: short ways to add requests and to answer a plan with chosen tokens.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace quire::test {

struct Rig {
  explicit Rig(const SchedulerConfig& config) : scheduler(config) {}

  [[nodiscard]] static std::vector<TokenId> tokens(int n, TokenId first = 100) {
    std::vector<TokenId> out;
    for (int i = 0; i < n; ++i) out.push_back(first + i);
    return out;
  }
  [[nodiscard]] static SamplingParams endless() {
    SamplingParams p;
    p.max_tokens = 1000;
    return p;
  }
  // Adds a request whose prompt is `prompt`; it must be accepted.
  void add(std::uint64_t id, std::vector<TokenId> prompt, const SamplingParams& sampling = endless(), std::int32_t priority = 0,
           const std::string& ns = "") {
    const Status s = scheduler.add(SequenceSpec{.id = RequestId{id},
                                                .prompt = std::move(prompt),
                                                .sampling = std::make_shared<SamplingParams>(sampling),
                                                .priority = priority,
                                                .arrival = id,
                                                .cache_namespace = ns});
    ASSERT_TRUE(s.ok()) << s.error().message;
  }
  [[nodiscard]] StepPlan plan() {
    auto p = scheduler.step_plan();
    check();
    if (!p) {
      ADD_FAILURE() << "no plan";
      return {};
    }
    return *std::move(p);
  }
  // Every sampling row yields `token`.
  std::vector<SequenceOutput> apply(const StepPlan& p, TokenId token = 7, const std::optional<Error>& failure_of_first = std::nullopt) {
    StepResult result{.step_id = p.step_id, .rows = {}};
    for (const RowPlan& row : p.rows) {
      RowResult r;
      r.request = row.request;
      if (result.rows.empty() && failure_of_first.has_value()) {
        r.failure = failure_of_first;
      } else if (row.samples) {
        r.token = token;
      }
      result.rows.push_back(std::move(r));
    }
    auto out = scheduler.apply(result);
    check();
    return out;
  }
  // Plans, applies, and gives the plan.
  StepPlan apply_plan() {
    StepPlan p = plan();
    apply(p);
    return p;
  }
  std::vector<SequenceOutput> step(TokenId token = 7) { return apply(plan(), token); }
  void check() const {
    const Status s = scheduler.check_integrity();
    ASSERT_TRUE(s.ok()) << s.error().message;
  }

  Scheduler scheduler;
};

// "1:0+8" = request 1 runs positions [0, 8); a trailing '*' = it samples.
[[nodiscard]] inline std::vector<std::string> rows_of(const StepPlan& plan) {
  std::vector<std::string> out;
  for (const RowPlan& r : plan.rows) {
    out.push_back(std::to_string(r.request.value) + ":" + std::to_string(r.num_computed) + "+" + std::to_string(r.num_new) + (r.samples ? "*" : ""));
  }
  return out;
}

}  // namespace quire::test
