// Many threads submit, cancel and time out at random: every accepted request ends exactly once, nothing stays held.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "fake_executor.h"
#include "kit/seed.h"

namespace quire::engine::test {
namespace {

using namespace std::chrono_literals;

class RandomAtDepth : public ::testing::TestWithParam<std::int32_t> {};
INSTANTIATE_TEST_SUITE_P(Engine, RandomAtDepth, ::testing::Values(1, 2), [](const auto& i) { return "Depth" + std::to_string(i.param); });

struct Sent {
  RequestId id;
  GenerateRequest request;
  bool may_be_aborted = false, may_break = false;
};

// One client thread: 250 requests, some cancelled at once or later, some that break, some whose ends by length the client settles.
std::vector<Sent> run_client(Bench& bench, Consumer& consumer, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto pick = [&rng](std::uint64_t n) { return rng() % n; };
  std::vector<Sent> sent;
  while (sent.size() < 250) {
    Sent next;
    next.request = make_request(make_prompt(1 + static_cast<std::int32_t>(pick(60)), pick(5)), 1 + static_cast<std::int32_t>(pick(40)));
    next.request.sampling.eos_token_ids = {static_cast<TokenId>(pick(kVocab))};
    next.request.priority = static_cast<std::int32_t>(pick(3));
    if (pick(8) == 0) next.request.sampling.prompt_logprobs = 0;
    if (pick(3) == 0) next.request.end_known_by = GenerateRequest::EndKnownBy::kCaller;
    next.may_be_aborted = bench.config.request_timeout_seconds > 0;
    const auto id = bench.engine->submit(next.request, SeedSource::kRequest, consumer.queue());
    if (!id.ok()) {
      EXPECT_EQ(id.error().code, ErrorCode::kResourceExhausted) << id.error().message;
      std::this_thread::yield();
      continue;
    }
    next.id = id.value();
    next.may_break = next.id.value % 17 == 0;
    if (pick(5) == 0) {
      next.may_be_aborted = true;
      bench.engine->cancel(next.id);
    }
    sent.push_back(std::move(next));
    if (pick(5) == 0) {
      Sent& victim = sent[pick(sent.size())];
      victim.may_be_aborted = true;
      bench.engine->cancel(victim.id);
    }
    if (pick(3) == 0) bench.engine->settle(sent[pick(sent.size())].id);
    consumer.read();
  }
  return sent;
}

void check_client(Consumer& consumer, const std::vector<Sent>& sent, std::int32_t max_model_len) {
  EXPECT_EQ(consumer.all().size(), sent.size());
  for (const Sent& s : sent) {
    const Seen& seen = consumer.of(s.id);
    ASSERT_EQ(seen.finishes.size(), 1u) << "request " << s.id.value;
    EXPECT_FALSE(seen.out_of_order);
    const FinishEvent& finish = seen.finishes[0];
    EXPECT_EQ(finish.num_output_tokens, static_cast<std::int32_t>(seen.tokens.size()));
    const Expected want = expected_output(s.request, max_model_len);
    ASSERT_LE(seen.tokens.size(), want.tokens.size());
    EXPECT_TRUE(std::equal(seen.tokens.begin(), seen.tokens.end(), want.tokens.begin())) << "request " << s.id.value;
    if (finish.reason == FinishReason::kAbort) {
      EXPECT_TRUE(s.may_be_aborted) << "request " << s.id.value;
    } else if (finish.reason == FinishReason::kError) {
      EXPECT_TRUE(s.may_break) << "request " << s.id.value << ": " << finish.error->message;
    } else {
      EXPECT_EQ(seen.tokens, want.tokens) << "request " << s.id.value;
      EXPECT_EQ(finish.reason, want.reason);
      EXPECT_EQ(seen.prompt_logprobs.size(), s.request.sampling.prompt_logprobs ? s.request.prompt.size() - 1 : 0u);
    }
  }
}

void check_random_clients(std::int32_t depth, double timeout_seconds) {
  EngineConfig config = small_config(depth);
  config.request_timeout_seconds = timeout_seconds;
  config.scheduler.num_blocks = 20;
  config.scheduler.policy = SchedulingPolicy::kPriority;
  config.max_queue = 64;
  Bench bench(config);
  bench.control->break_rows([](RequestId id) { return id.value % 17 == 0; });
  auto rng = quire::test::seeded_rng();
  constexpr std::size_t kThreads = 4;
  std::vector<Consumer> consumers(kThreads);
  std::vector<std::vector<Sent>> sent(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t, seed = rng()] { sent[t] = run_client(bench, consumers[t], seed); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t) {
    ASSERT_TRUE(consumers[t].wait_finishes(sent[t].size()));
    check_client(consumers[t], sent[t], config.scheduler.max_model_len);
  }
  bench.engine->stop(5s);
  const SchedulerStats stats = bench.engine->stats();
  EXPECT_EQ(stats.num_blocks_free, stats.num_blocks_total);
  EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
  EXPECT_EQ(bench.engine->status().num_waiting, 0);
  for (std::size_t t = 0; t < kThreads; ++t) {
    consumers[t].read();
    EXPECT_EQ(consumers[t].num_finishes(), sent[t].size()) << "no event after the last finish";
  }
  const std::string text = bench.metrics->render();
  EXPECT_EQ(sample(text, "vllm:e2e_request_latency_seconds_count{engine=\"0\",model_name=\"tiny\"}"), 1000);
}

TEST_P(RandomAtDepth, EveryRequestEndsOnceAndNothingStaysHeld) { check_random_clients(GetParam(), 0); }
TEST_P(RandomAtDepth, SoItIsWithTinyTimeouts) { check_random_clients(GetParam(), 0.003); }

// Stop in the middle of it: whoever was accepted still gets exactly one end.
TEST_P(RandomAtDepth, StopInTheMiddleEndsEveryAcceptedRequestOnce) {
  Bench bench(small_config(GetParam()));
  constexpr std::size_t kThreads = 3;
  std::vector<Consumer> consumers(kThreads);
  std::vector<std::size_t> accepted(kThreads, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      while (true) {
        const auto id = bench.engine->submit(make_request(make_prompt(9, t), 20), SeedSource::kRequest, consumers[t].queue());
        if (id.ok())
          ++accepted[t];
        else if (id.error().code == ErrorCode::kUnavailable)
          return;
      }
    });
  }
  EXPECT_TRUE(consumers[0].wait_tokens(50));
  bench.engine->stop(0ms);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t) {
    consumers[t].read();
    EXPECT_EQ(consumers[t].num_finishes(), accepted[t]);
    for (const auto& [id, seen] : consumers[t].all()) EXPECT_EQ(seen.finishes.size(), 1u);
  }
  EXPECT_EQ(bench.engine->stats().num_blocks_free, bench.engine->stats().num_blocks_total);
}

}  // namespace
}  // namespace quire::engine::test
