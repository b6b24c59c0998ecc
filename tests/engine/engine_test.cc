// Requests through the step loop: outputs, order of events, admission, seeds, idleness.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "fake_executor.h"
#include "kit/slowdown.h"

namespace quire::engine::test {
namespace {

using namespace std::chrono_literals;

class AtDepth : public ::testing::TestWithParam<std::int32_t> {};
INSTANTIATE_TEST_SUITE_P(Engine, AtDepth, ::testing::Values(1, 2), [](const auto& i) { return "Depth" + std::to_string(i.param); });

TEST_P(AtDepth, OneRequestGetsItsTokensAndOneFinish) {
  Bench bench(small_config(GetParam()));
  const GenerateRequest request = make_request(make_prompt(70, 1), 20);
  const RequestId id = bench.submit(request);
  ASSERT_TRUE(bench.consumer.wait_finishes(1));
  const Seen& seen = bench.consumer.of(id);
  EXPECT_EQ(seen.tokens, expected_output(request, 256).tokens);
  ASSERT_EQ(seen.finishes.size(), 1u);
  EXPECT_EQ(seen.finishes[0].reason, FinishReason::kLength);
  EXPECT_FALSE(seen.finishes[0].error.has_value());
  EXPECT_EQ(seen.finishes[0].num_prompt_tokens, 70);
  EXPECT_EQ(seen.finishes[0].num_output_tokens, 20);
  EXPECT_EQ(seen.num_prompt_events, 0);
}

TEST_P(AtDepth, StopsAtEndTokensAndNamesTheStopToken) {
  Bench bench(small_config(GetParam()));
  GenerateRequest request = make_request(make_prompt(10, 2), 40);
  const std::vector<TokenId> free_run = expected_output(request, 256).tokens;
  request.sampling.eos_token_ids = {free_run[5]};
  const RequestId by_eos = bench.submit(request);
  GenerateRequest other = make_request(make_prompt(10, 2), 40);
  other.sampling.stop_token_ids = {free_run[7]};
  const RequestId by_stop = bench.submit(other);
  ASSERT_TRUE(bench.consumer.wait_finishes(2));
  EXPECT_EQ(bench.consumer.of(by_eos).tokens, expected_output(request, 256).tokens);
  EXPECT_EQ(bench.consumer.of(by_eos).finishes[0].reason, FinishReason::kStop);
  EXPECT_FALSE(bench.consumer.of(by_eos).finishes[0].stop_token.has_value());
  EXPECT_EQ(bench.consumer.of(by_stop).tokens, expected_output(other, 256).tokens);
  EXPECT_EQ(bench.consumer.of(by_stop).finishes[0].stop_token, free_run[7]);
}

TEST_P(AtDepth, PromptLogprobsAreWholeAndComeFirstThoughThePromptRunsInChunks) {
  EngineConfig config = small_config(GetParam());
  config.scheduler.max_num_batched_tokens = 8;
  Bench bench(config);
  GenerateRequest request = make_request(make_prompt(61, 3), 3);
  request.sampling.prompt_logprobs = 0;
  const RequestId id = bench.submit(request);
  GenerateRequest single = make_request({7}, 1);
  single.sampling.prompt_logprobs = 0;
  const RequestId one_token = bench.submit(single);
  ASSERT_TRUE(bench.consumer.wait_finishes(2));
  const Seen& seen = bench.consumer.of(id);
  EXPECT_EQ(seen.num_prompt_events, 1);
  EXPECT_FALSE(seen.out_of_order);
  ASSERT_EQ(seen.prompt_logprobs.size(), 60u);
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(seen.prompt_logprobs[i].token, request.prompt[i + 1]) << i;
    EXPECT_EQ(seen.prompt_logprobs[i].logprob, -static_cast<float>(i + 1)) << i;
  }
  EXPECT_EQ(bench.consumer.of(one_token).num_prompt_events, 1);
  EXPECT_TRUE(bench.consumer.of(one_token).prompt_logprobs.empty());
}

// A pool that holds two of the eight sequences: preemption must not show in what clients get.
TEST_P(AtDepth, CrowdedPoolGivesEveryRequestItsOwnOutput) {
  EngineConfig config = small_config(GetParam());
  config.scheduler.num_blocks = 12;
  Bench bench(config);
  std::vector<std::pair<RequestId, GenerateRequest>> sent;
  for (int i = 0; i < 40; ++i) {
    GenerateRequest request = make_request(make_prompt(5 + i, static_cast<std::uint64_t>(i % 7)), 30 + i);
    request.sampling.eos_token_ids = {13};
    if (i % 5 == 0) request.sampling.prompt_logprobs = 0;
    sent.emplace_back(bench.submit(request), request);
  }
  ASSERT_TRUE(bench.consumer.wait_finishes(sent.size()));
  for (const auto& [id, request] : sent) {
    const Seen& seen = bench.consumer.of(id);
    const Expected want = expected_output(request, config.scheduler.max_model_len);
    EXPECT_EQ(seen.tokens, want.tokens);
    EXPECT_EQ(seen.finishes.at(0).reason, want.reason);
    EXPECT_EQ(seen.num_prompt_events, request.sampling.prompt_logprobs ? 1 : 0);
    EXPECT_EQ(seen.prompt_logprobs.size(), request.sampling.prompt_logprobs ? request.prompt.size() - 1 : 0u);
  }
  EXPECT_GT(bench.engine->stats().num_preemptions, 0u);
  EXPECT_EQ(bench.control->most_in_flight(), GetParam());
}

TEST(Engine, RefusesWhatCouldNeverRun) {
  EngineConfig config = small_config();
  config.scheduler.num_blocks = 4;
  Bench bench(config);
  const auto refusal = [&](GenerateRequest request) {
    const auto id = bench.engine->submit(std::move(request), SeedSource::kRequest, bench.consumer.queue());
    EXPECT_FALSE(id.ok());
    return id.ok() ? Error{} : id.error();
  };
  EXPECT_EQ(refusal(make_request({}, 4)).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(make_request({}, 4)).param, "prompt");
  EXPECT_NE(refusal(make_request(make_prompt(256, 0), 4)).message.find("255"), std::string::npos);
  EXPECT_NE(refusal(make_request(make_prompt(64, 0), 4)).message.find("needs 5 KV blocks of 16 tokens with its first output; the whole cache has 4"), std::string::npos);
  EXPECT_EQ(refusal(make_request({1}, 0)).param, "max_tokens");
  EXPECT_EQ(refusal(make_request({1}, -5)).param, "max_tokens");
  const GenerateRequest good = make_request(make_prompt(63, 0), 1);
  bench.submit(good);
  EXPECT_TRUE(bench.consumer.wait_finishes(1));
  EXPECT_EQ(bench.consumer.all().size(), 1u) << "a refused request has no events";
}

TEST(Engine, QueueLimitRefusesOneMoreAndFreesPlacesAtTheEnd) {
  EngineConfig config = small_config();
  config.max_queue = 3;
  Bench bench(config);
  bench.control->hold();
  for (int i = 0; i < 3; ++i) bench.submit(make_request({1, 2}, 2));
  const auto refused = bench.engine->submit(make_request({1, 2}, 2), SeedSource::kRequest, bench.consumer.queue());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("limit is 3"), std::string::npos) << refused.error().message;
  const EngineStatus status = bench.engine->status();
  EXPECT_EQ(status.num_sequences(), 3);
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(3));
  // The place is free as soon as the finish is seen.
  bench.submit(make_request({1, 2}, 2));
  EXPECT_TRUE(bench.consumer.wait_finishes(4));
  EXPECT_EQ(sample(bench.metrics->render(), "quire:queue_rejected_total{engine=\"0\",model_name=\"tiny\"}"), 1);
}

TEST(Engine, SeedsAreDrawnFromTheServersSeedUnlessGiven) {
  const auto seeds = [](std::uint64_t server_seed) {
    EngineConfig config = small_config();
    config.seed = server_seed;
    Bench bench(config);
    GenerateRequest request = make_request({1, 2, 3}, 1);
    request.sampling.seed = 77;
    for (const SeedSource source : {SeedSource::kEngine, SeedSource::kEngine, SeedSource::kRequest}) {
      EXPECT_TRUE(bench.engine->submit(request, source, bench.consumer.queue()).ok());
    }
    EXPECT_TRUE(bench.consumer.wait_finishes(3));
    return bench.control->seeds();
  };
  const auto first = seeds(5);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first, seeds(5));
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(first[2], 77u);
  EXPECT_NE(first[0], seeds(6)[0]);
}

TEST(Engine, UsesNoCpuWhileIdle) {
  Bench bench(small_config(2));
  bench.submit(make_request({1, 2, 3}, 5));
  ASSERT_TRUE(bench.consumer.wait_finishes(1));
  const auto cpu_us = [] {
    rusage use{};
    EXPECT_EQ(::getrusage(RUSAGE_SELF, &use), 0);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1'000'000 + use.ru_utime.tv_usec + use.ru_stime.tv_usec;
  };
  const auto switches = [] {
    rusage use{};
    EXPECT_EQ(::getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_nvcsw;
  };
  const auto cpu_before = cpu_us();
  const auto switches_before = switches();
  std::this_thread::sleep_for(400ms);
  EXPECT_LT(cpu_us() - cpu_before, 4000 * quire::test::kSlowdown) << "1 % of one core";
  EXPECT_LT(switches() - switches_before, 6 * quire::test::kSlowdown) << "an idle engine does not wake up";
  EXPECT_EQ(bench.engine->status().stage, EngineStatus::Stage::kIdle);
  EXPECT_EQ(bench.engine->status().ms_since_step, 0);
}

TEST(Engine, ResetsThePrefixCacheBetweenRequests) {
  Bench bench(small_config());
  const GenerateRequest request = make_request(make_prompt(64, 9), 2);
  const auto cached = [&](std::size_t n) {
    const RequestId id = bench.submit(request);
    EXPECT_TRUE(bench.consumer.wait_finishes(n));
    return bench.consumer.of(id).finishes.at(0).num_cached_tokens;
  };
  EXPECT_EQ(cached(1), 0);
  EXPECT_EQ(cached(2), 48);
  EXPECT_TRUE(bench.engine->reset_prefix_cache(5000ms));
  EXPECT_EQ(cached(3), 0);
  bench.engine->stop(0ms);
  EXPECT_FALSE(bench.engine->reset_prefix_cache(5000ms));
}

}  // namespace
}  // namespace quire::engine::test
