// Ways for a request to end early: cancel, an end that the caller found, timeout, shutdown. Each touches only its own request.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include "fake_executor.h"

namespace quire::engine::test {
namespace {

using namespace std::chrono_literals;

class EndAtDepth : public ::testing::TestWithParam<std::int32_t> {};
INSTANTIATE_TEST_SUITE_P(Engine, EndAtDepth, ::testing::Values(1, 2), [](const auto& i) { return "Depth" + std::to_string(i.param); });

void expect_all_free(const Bench& bench) {
  bench.engine->stop(5000ms);
  const SchedulerStats stats = bench.engine->stats();
  EXPECT_EQ(stats.num_blocks_free, stats.num_blocks_total);
  EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
}

TEST_P(EndAtDepth, CancelReachesQueuePrefillAndDecodeAndNobodyElse) {
  EngineConfig config = small_config(GetParam());
  config.scheduler.max_num_seqs = 3;
  config.scheduler.max_num_batched_tokens = 16;
  Bench bench(config);
  bench.control->hold();
  const GenerateRequest kept_request = make_request(make_prompt(4, 1), 30);
  const RequestId kept = bench.submit(kept_request);
  const RequestId decoding = bench.submit(make_request(make_prompt(4, 2), 200));
  bench.control->allow(20);
  ASSERT_TRUE(bench.consumer.wait_tokens(20));
  const RequestId prefilling = bench.submit(make_request(make_prompt(250, 3), 5));
  const RequestId queued = bench.submit(make_request(make_prompt(4, 4), 5));
  bench.control->allow(4);
  ASSERT_TRUE(bench.consumer.wait_tokens(28));
  EXPECT_TRUE(bench.consumer.of(prefilling).tokens.empty());
  EXPECT_TRUE(bench.consumer.of(kept).finishes.empty());
  for (const RequestId id : {decoding, prefilling, queued}) bench.engine->cancel(id);
  bench.engine->cancel(RequestId{999});
  bench.engine->cancel(queued);
  bench.control->allow(2);
  ASSERT_TRUE(bench.consumer.wait_finishes(3));
  for (const RequestId id : {decoding, prefilling, queued}) {
    const Seen& seen = bench.consumer.of(id);
    ASSERT_EQ(seen.finishes.size(), 1u);
    EXPECT_EQ(seen.finishes[0].reason, FinishReason::kAbort);
    EXPECT_FALSE(seen.finishes[0].error.has_value());
    EXPECT_FALSE(seen.out_of_order);
  }
  EXPECT_LT(bench.consumer.of(decoding).tokens.size(), 40u);
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(4));
  EXPECT_EQ(bench.consumer.of(kept).tokens, expected_output(kept_request, 256).tokens);
  EXPECT_EQ(bench.consumer.of(kept).finishes[0].reason, FinishReason::kLength);
  bench.engine->cancel(kept);  // too late: ignored
  expect_all_free(bench);
  bench.consumer.read();
  EXPECT_EQ(bench.consumer.num_finishes(), 4u);
}

// What api does when a stop string is complete: the event, the count and the log line say stop, and the first word counts.
TEST_P(EndAtDepth, FinishSaysStopInEventMetricsAndLog) {
  ::testing::internal::CaptureStdout();  // where the logger of a test binary writes
  EngineConfig config = small_config(GetParam());
  config.log_requests = true;
  {
    Bench bench(config);
    bench.control->hold();
    const RequestId kept = bench.submit(make_request(make_prompt(4, 1), 30));
    std::vector<RequestId> stopped;
    for (std::uint64_t i = 0; i < 5; ++i) stopped.push_back(bench.submit(make_request(make_prompt(4, 2 + i), 200)));
    const RequestId cancelled = bench.submit(make_request(make_prompt(4, 8), 200));
    bench.control->allow(3);
    ASSERT_TRUE(bench.consumer.wait_tokens(7));
    for (const RequestId id : stopped) bench.engine->finish(id);
    bench.engine->cancel(stopped[0]);
    bench.engine->cancel(cancelled);
    bench.engine->finish(cancelled);
    bench.engine->finish(RequestId{999});
    bench.control->allow_all();
    ASSERT_TRUE(bench.consumer.wait_finishes(7));
    for (const RequestId id : stopped) {
      const Seen& seen = bench.consumer.of(id);
      ASSERT_EQ(seen.finishes.size(), 1u);
      EXPECT_EQ(seen.finishes[0].reason, FinishReason::kStop);
      EXPECT_FALSE(seen.finishes[0].error.has_value());
      EXPECT_FALSE(seen.finishes[0].stop_token.has_value());
      EXPECT_LT(seen.tokens.size(), 10u);
    }
    EXPECT_EQ(bench.consumer.of(cancelled).finishes[0].reason, FinishReason::kAbort);
    EXPECT_EQ(bench.consumer.of(kept).finishes[0].reason, FinishReason::kLength);
    const std::string text = bench.metrics->render();
    const auto count = [&text](const std::string& reason) {
      return sample(text, "vllm:request_success_total{engine=\"0\",finished_reason=\"" + reason + "\",model_name=\"tiny\"}");
    };
    EXPECT_EQ(count("stop"), 5);
    EXPECT_EQ(count("abort"), 1);
    EXPECT_EQ(count("length"), 1);
    expect_all_free(bench);
  }
  const std::string log = ::testing::internal::GetCapturedStdout();
  const auto lines = [&log](const std::string& part) {
    int num = 0;
    for (std::size_t at = log.find(part); at != std::string::npos; at = log.find(part, at + 1)) ++num;
    return num;
  };
  EXPECT_EQ(lines(" ended: stop,"), 5) << log;
  EXPECT_EQ(lines(" ended: abort,"), 1) << log;
}

// A finish that the engine thread has not read yet when the server stops is not turned into an abort.
TEST_P(EndAtDepth, FinishBeforeShutdownStaysAStop) {
  Bench bench(small_config(GetParam()));
  bench.control->hold();
  const RequestId id = bench.submit(make_request(make_prompt(4, 1), 200));
  const RequestId other = bench.submit(make_request(make_prompt(4, 2), 200));
  bench.control->wait_submitted(1);
  bench.engine->finish(id);
  bench.engine->stop(0ms);  // the executor hangs: this thread ends the requests
  ASSERT_TRUE(bench.consumer.wait_finishes(2));
  EXPECT_EQ(bench.consumer.of(id).finishes[0].reason, FinishReason::kStop);
  EXPECT_EQ(bench.consumer.of(other).finishes[0].reason, FinishReason::kAbort);
  bench.control->allow_all();
  expect_all_free(bench);
}

TEST_P(EndAtDepth, TimeoutsEndQueuedAndRunningRequestsAndNameTheLimit) {
  EngineConfig config = small_config(GetParam());
  config.scheduler.max_num_seqs = 1;
  config.request_timeout_seconds = 0.05;
  Bench bench(config);
  bench.control->allow(3);
  bench.submit(make_request(make_prompt(4, 1), 200));
  bench.submit(make_request(make_prompt(4, 2), 200));
  ASSERT_TRUE(bench.consumer.wait_tokens(3));
  std::this_thread::sleep_for(80ms);
  bench.control->allow(2);
  ASSERT_TRUE(bench.consumer.wait_finishes(2));
  for (const auto& [id, seen] : bench.consumer.all()) {
    const FinishEvent& finish = seen.finishes.at(0);
    EXPECT_EQ(finish.reason, FinishReason::kAbort);
    ASSERT_TRUE(finish.error.has_value());
    EXPECT_EQ(finish.error->param, "request_timeout_seconds");
    EXPECT_NE(finish.error->message.find("0.05 s"), std::string::npos) << finish.error->message;
  }
  bench.control->allow_all();
  expect_all_free(bench);
}

TEST(EngineEnd, HugeAndMeaninglessTimeoutsAreNoTimeouts) {
  for (const double seconds : {1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    EngineConfig config = small_config();
    config.request_timeout_seconds = seconds;
    Bench bench(config);
    bench.submit(make_request({1, 2}, 4));
    ASSERT_TRUE(bench.consumer.wait_finishes(1));
    EXPECT_EQ(bench.consumer.all().begin()->second.finishes.at(0).reason, FinishReason::kLength) << seconds;
  }
}

double ended(const Bench& bench, const std::string& reason) {
  return sample(bench.metrics->render(), "vllm:request_success_total{engine=\"0\",finished_reason=\"" + reason + "\",model_name=\"tiny\"}");
}

GenerateRequest read_by_caller(std::uint64_t salt, std::int32_t max_tokens) {
  GenerateRequest request = make_request(make_prompt(5, salt), max_tokens);
  request.end_known_by = GenerateRequest::EndKnownBy::kCaller;
  return request;
}

// How an end by length is counted waits for whoever reads the text; its place in the queue does not.
TEST_P(EndAtDepth, AnEndByLengthIsCountedAsTheCallerReadIt) {
  EngineConfig config = small_config(GetParam());
  config.max_queue = 1;
  Bench bench(config);
  const auto end_of = [&](std::uint64_t salt) {
    const RequestId id = bench.submit(read_by_caller(salt, 3));
    EXPECT_TRUE(bench.consumer.wait_finishes(salt));
    EXPECT_EQ(bench.consumer.of(id).finishes.at(0).reason, FinishReason::kLength);
    return id;
  };
  const RequestId stopped = end_of(1), at_length = end_of(2), gone = end_of(3), silent = end_of(4);
  EXPECT_EQ(ended(bench, "length") + ended(bench, "stop"), 0);
  bench.engine->finish(stopped);
  bench.engine->settle(at_length);
  bench.engine->cancel(gone);
  for (const RequestId id : {stopped, at_length, gone}) {  // the first word counts
    bench.engine->settle(id);
    bench.engine->finish(id);
  }
  bench.engine->settle(RequestId{999});
  (void)silent;
  bench.engine->stop(5s);  // nobody will say more about the last
  EXPECT_EQ(ended(bench, "stop"), 1);
  EXPECT_EQ(ended(bench, "length"), 3);
  EXPECT_EQ(ended(bench, "abort") + ended(bench, "error"), 0);
  expect_all_free(bench);
}

// The stop string is found in a token before the last, and the engine hears of it when it has reached max_tokens already.
TEST_P(EndAtDepth, AStopThatCrossesAnEndByLengthCountsAsStop) {
  Bench bench(small_config(GetParam()));
  bench.control->allow(2);
  const RequestId id = bench.submit(read_by_caller(1, 3));
  ASSERT_TRUE(bench.consumer.wait_tokens(2));
  bench.control->wait_submitted(3);
  bench.engine->finish(id);
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(1));
  bench.engine->stop(5s);
  EXPECT_EQ(ended(bench, "stop"), 1);
  EXPECT_EQ(ended(bench, "length"), 0);
}

TEST_P(EndAtDepth, DrainLetsRunningRequestsEnd) {
  Bench bench(small_config(GetParam()));
  bench.control->allow(5);
  std::vector<std::pair<RequestId, GenerateRequest>> sent;
  for (std::uint64_t i = 0; i < 12; ++i) {
    GenerateRequest request = make_request(make_prompt(6, i), 30);
    sent.emplace_back(bench.submit(request), request);
  }
  ASSERT_TRUE(bench.consumer.wait_tokens(5));
  std::thread stopper([&] { bench.engine->stop(20s); });
  while (bench.engine->status().state != EngineStatus::State::kDraining) std::this_thread::yield();
  const auto late = bench.engine->submit(make_request({1}, 1), SeedSource::kRequest, bench.consumer.queue());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(late.error().message.find("shutting down"), std::string::npos);
  bench.control->allow_all();
  stopper.join();
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kStopped);
  bench.consumer.read();
  for (const auto& [id, request] : sent) {
    EXPECT_EQ(bench.consumer.of(id).tokens, expected_output(request, 256).tokens);
    ASSERT_EQ(bench.consumer.of(id).finishes.size(), 1u);
    EXPECT_EQ(bench.consumer.of(id).finishes[0].reason, FinishReason::kLength);
  }
  expect_all_free(bench);
}

TEST_P(EndAtDepth, ShutdownWithoutGraceAbortsWithAReason) {
  Bench bench(small_config(GetParam()));
  bench.control->allow(3);
  for (std::uint64_t i = 0; i < 12; ++i) bench.submit(make_request(make_prompt(6, i), 200));
  ASSERT_TRUE(bench.consumer.wait_tokens(3));
  std::thread first([&] { bench.engine->stop(60s); });
  while (bench.engine->status().state != EngineStatus::State::kDraining) std::this_thread::yield();
  std::thread opener([&] { bench.control->allow(2); });
  bench.engine->stop(0ms);  // a second call shortens the grace
  first.join();
  opener.join();
  bench.consumer.read();
  EXPECT_EQ(bench.consumer.all().size(), 12u);
  for (const auto& [id, seen] : bench.consumer.all()) {
    ASSERT_EQ(seen.finishes.size(), 1u);
    EXPECT_EQ(seen.finishes[0].reason, FinishReason::kAbort);
    ASSERT_TRUE(seen.finishes[0].error.has_value());
    EXPECT_EQ(seen.finishes[0].error->code, ErrorCode::kUnavailable);
  }
  bench.control->allow_all();
  expect_all_free(bench);
}

TEST(EngineEnd, StatesBeforeStartAndAfterStop) {
  Bench bench(small_config(), false);
  const auto early = bench.engine->submit(make_request({1}, 1), SeedSource::kRequest, bench.consumer.queue());
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kStarting);
  EXPECT_FALSE(bench.engine->reset_prefix_cache(1s));
  bench.engine->stop(0ms);
  bench.engine->stop(0ms);
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kStopped);
}

// A step that never returns: requests still end, stop() still returns, and the engine says where it is.
TEST_P(EndAtDepth, HungExecutorCannotKeepRequestsOrStopWaiting) {
  Bench bench(small_config(GetParam()));
  bench.control->hold();
  const RequestId running = bench.submit(make_request({1, 2, 3}, 10));
  bench.control->wait_submitted(1);
  const RequestId unseen = bench.submit(make_request({1, 2, 3}, 10));  // the engine thread cannot take it
  std::this_thread::sleep_for(30ms);
  const EngineStatus status = bench.engine->status();
  EXPECT_EQ(status.stage, EngineStatus::Stage::kExecuting);
  EXPECT_GE(status.step_running_ms, 20);
  EXPECT_GE(status.stage_ms, 20);
  EXPECT_EQ(status.num_sequences(), 2);
  bench.engine->stop(0ms);
  bench.consumer.read();
  for (const RequestId id : {running, unseen}) {
    ASSERT_EQ(bench.consumer.of(id).finishes.size(), 1u);
    EXPECT_EQ(bench.consumer.of(id).finishes[0].reason, FinishReason::kAbort);
  }
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kDraining);
  bench.control->allow_all();
  expect_all_free(bench);
  bench.consumer.read();
  EXPECT_EQ(bench.consumer.num_finishes(), 2u);
  EXPECT_EQ(bench.engine->status().state, EngineStatus::State::kStopped);
}

// The line per request: at info level when asked for, and never broken by what a client put into its id.
TEST(EngineEnd, OneLogLinePerRequestWithAPrintableId) {
  for (const bool log_requests : {false, true}) {
    EngineConfig config = small_config();
    config.log_requests = log_requests;
    Bench bench(config);
    GenerateRequest request = make_request({1, 2, 3}, 4);
    request.client_id = "cmpl-7\n\x1b[31mforged";
    ::testing::internal::CaptureStdout();  // where the logger of a test binary writes
    bench.submit(request);
    const bool ended = bench.consumer.wait_finishes(1);
    const std::string log = ::testing::internal::GetCapturedStdout();
    ASSERT_TRUE(ended);
    if (!log_requests) {
      EXPECT_EQ(log, "");
      continue;
    }
    EXPECT_NE(log.find("request cmpl-7\\x0a\\x1b[31mforged ended: length, 3 prompt tokens (0 cached), 4 output tokens"), std::string::npos) << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  }
}

// Commands are handled a bounded number at a time, so that a flood cannot hold up running requests.
TEST(EngineEnd, AFloodOfCommandsDoesNotStarveSteps) {
  Bench bench(small_config());
  const GenerateRequest request = make_request(make_prompt(8, 1), 200);
  const RequestId id = bench.submit(request);
  Consumer flood_events;
  std::atomic<bool> done = false;
  std::thread flood([&] {
    while (!done) {
      const auto other = bench.engine->submit(make_request({5, 6}, 50), SeedSource::kRequest, flood_events.queue());
      if (other.ok()) bench.engine->cancel(other.value());
      flood_events.read();
    }
  });
  EXPECT_TRUE(bench.consumer.wait_finishes(1));
  done = true;
  flood.join();
  EXPECT_EQ(bench.consumer.of(id).tokens, expected_output(request, 256).tokens);
}

}  // namespace
}  // namespace quire::engine::test
