// A device that fails: one row, one step, every step.
#include <gtest/gtest.h>

#include <chrono>

#include "fake_executor.h"

namespace quire::engine::test {
namespace {

using namespace std::chrono_literals;

class FailAtDepth : public ::testing::TestWithParam<std::int32_t> {};
INSTANTIATE_TEST_SUITE_P(Engine, FailAtDepth, ::testing::Values(1, 2), [](const auto& i) { return "Depth" + std::to_string(i.param); });

TEST_P(FailAtDepth, UnusableLogitsFailTheirOwnRequestAlone) {
  Bench bench(small_config(GetParam()));
  const GenerateRequest request = make_request(make_prompt(8, 1), 25);
  const RequestId good = bench.submit(request);
  const RequestId bad{good.value + 1};
  bench.control->break_rows([bad](RequestId id) { return id == bad; });
  ASSERT_EQ(bench.submit(make_request(make_prompt(8, 1), 25)), bad);
  ASSERT_TRUE(bench.consumer.wait_finishes(2));
  EXPECT_EQ(bench.consumer.of(good).tokens, expected_output(request, 256).tokens);
  const FinishEvent& finish = bench.consumer.of(bad).finishes.at(0);
  EXPECT_EQ(finish.reason, FinishReason::kError);
  ASSERT_TRUE(finish.error.has_value());
  EXPECT_EQ(finish.error->code, ErrorCode::kInternal);
  EXPECT_NE(finish.error->message.find("not numbers"), std::string::npos);
  EXPECT_TRUE(bench.consumer.of(bad).tokens.empty());
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kReady);
}

TEST_P(FailAtDepth, AFailedStepEndsItsRequestsAndServingGoesOn) {
  EngineConfig config = small_config(GetParam());
  config.scheduler.max_num_seqs = 2;
  Bench bench(config);
  bench.control->hold();
  std::vector<std::pair<RequestId, GenerateRequest>> sent;
  for (std::uint64_t i = 0; i < 4; ++i) {
    GenerateRequest request = make_request(make_prompt(5, i), 10);
    sent.emplace_back(bench.submit(request), request);
  }
  bench.control->fail_steps(1);
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(4));
  // The first step may hold one or two of them, depending on how early the engine thread woke up.
  int failed = 0;
  for (const auto& [id, request] : sent) {
    const Seen& seen = bench.consumer.of(id);
    ASSERT_EQ(seen.finishes.size(), 1u);
    if (seen.finishes[0].reason == FinishReason::kError) {
      ++failed;
      EXPECT_EQ(seen.finishes[0].error->code, ErrorCode::kInternal);
      EXPECT_NE(seen.finishes[0].error->message.find("fell over"), std::string::npos);
    } else {
      EXPECT_EQ(seen.tokens, expected_output(request, 256).tokens);
    }
  }
  EXPECT_GE(failed, 1);
  EXPECT_LE(failed, 2);
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kReady);
  bench.engine->stop(1s);
  EXPECT_EQ(bench.engine->stats().num_blocks_free, bench.engine->stats().num_blocks_total);
}

TEST_P(FailAtDepth, TwoFailuresAndASuccessStartTheCountAnew) {
  Bench bench(small_config(GetParam()));
  std::size_t finishes = 0;
  for (int round = 0; round < 3; ++round) {
    bench.control->fail_steps(2);
    while (true) {
      const RequestId id = bench.submit(make_request({1, 2, 3}, 2));
      ASSERT_TRUE(bench.consumer.wait_finishes(++finishes));
      if (bench.consumer.of(id).finishes.at(0).reason == FinishReason::kLength) break;
    }
  }
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kReady);
}

TEST_P(FailAtDepth, ThreeFailedStepsInARowFailTheEngineAndEveryRequest) {
  EngineConfig config = small_config(GetParam());
  config.scheduler.max_num_seqs = 1;
  Bench bench(config);
  bench.control->hold();
  for (std::uint64_t i = 0; i < 9; ++i) bench.submit(make_request(make_prompt(5, i), 10));
  bench.control->fail_steps(1000);
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(9));
  for (const auto& [id, seen] : bench.consumer.all()) {
    ASSERT_EQ(seen.finishes.size(), 1u);
    EXPECT_EQ(seen.finishes[0].reason, FinishReason::kError);
    EXPECT_EQ(seen.finishes[0].error->code, ErrorCode::kInternal);
  }
  const EngineStatus status = bench.engine->status();
  EXPECT_EQ(status.state, EngineStatus::State::kFailed);
  EXPECT_NE(status.failure.find("3 steps in a row failed"), std::string::npos) << status.failure;
  const auto refused = bench.engine->submit(make_request({1}, 1), SeedSource::kRequest, bench.consumer.queue());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("fell over"), std::string::npos);
  bench.engine->stop(5s);
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kFailed);
  EXPECT_EQ(bench.engine->stats().num_blocks_free, bench.engine->stats().num_blocks_total);
  EXPECT_EQ(sample(bench.metrics->render(), "vllm:request_success_total{engine=\"0\",finished_reason=\"error\",model_name=\"tiny\"}"), 9);
}

}  // namespace
}  // namespace quire::engine::test
