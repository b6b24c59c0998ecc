// What planning and applying one step costs. The number is printed; the bound is far off, because machines that run tests are shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <vector>

#include "scheduler/scheduler.h"

namespace quire::test {
namespace {

using Clock = std::chrono::steady_clock;

double us(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

TEST(SchedulerSpeed, StepOf256Decodes) {
  SchedulerConfig c;
  c.max_num_seqs = 256;
  c.max_num_batched_tokens = 8192;
  c.max_model_len = 4096;
  c.num_blocks = 256 * 100;
  c.depth = 2;
  Scheduler scheduler(c);
  auto p = std::make_shared<SamplingParams>();
  p->max_tokens = 1200;
  p->ignore_eos = true;
  for (std::uint64_t i = 0; i < 256; ++i) {
    ASSERT_TRUE(
        scheduler
            .add(SequenceSpec{.id = RequestId{i}, .prompt = std::vector<TokenId>(100, static_cast<TokenId>(i)), .sampling = p, .cache_namespace = {}})
            .ok());
  }
  std::vector<double> plans, applies;
  StepResult pending;
  while (plans.size() < 1000) {
    const auto t0 = Clock::now();
    const auto plan = scheduler.step_plan();
    const auto t1 = Clock::now();
    ASSERT_TRUE(plan);
    const bool steady = plan->rows.size() == 256 && plan->num_tokens == 256;
    StepResult result{.step_id = plan->step_id, .rows = {}};
    for (const RowPlan& row : plan->rows) {
      RowResult r;
      r.request = row.request;
      if (row.samples) r.token = 5;
      result.rows.push_back(std::move(r));
    }
    if (pending.step_id != 0) {
      const auto t2 = Clock::now();
      ASSERT_FALSE(scheduler.apply(pending).empty());
      if (steady) applies.push_back(us(Clock::now() - t2));
    }
    pending = std::move(result);
    if (steady) plans.push_back(us(t1 - t0));
  }
  std::ranges::sort(plans);
  std::ranges::sort(applies);
  std::cout << "256 running: step_plan median " << plans[plans.size() / 2] << " us, p99 " << plans[plans.size() * 99 / 100] << " us; apply median "
            << applies[applies.size() / 2] << " us\n";
  EXPECT_LT(plans[plans.size() / 2], 5000.0);
}

}  // namespace
}  // namespace quire::test
