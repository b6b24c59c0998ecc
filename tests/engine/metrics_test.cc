// The exposition: names, types and labels of vLLM, numbers of a counted workload, and promtool's opinion.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "engine/stats_line.h"
#include "fake_executor.h"
#include "kit/temp_dir.h"

namespace quire::engine::test {
namespace {

using namespace std::chrono_literals;

const char* const kLabels = "{engine=\"0\",model_name=\"tiny\"}";

std::map<std::string, std::string> types_of(const std::string& text) {
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, keyword, name, type;
    if (words >> hash >> keyword >> name >> type && hash == "#" && keyword == "TYPE") types[name] = type;
  }
  return types;
}

TEST(Metrics, CarriesTheNamesAndTypesOfVllm) {
  Metrics metrics(MetricsConfig{.model_name = "m", .engine = "0", .max_model_len = 2048});
  metrics.set_cache_config({{"block_size", "16"}, {"cache_dtype", "auto"}});
  metrics.count_fallback("cpu_split", "cpu_unified", "asked for a window");
  const auto types = types_of(metrics.render());
  for (const char* name : {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "cache_config_info"}) {
    EXPECT_EQ(types.at(std::string("vllm:") + name), "gauge") << name;
  }
  for (const char* name : {"prefix_cache_queries", "prefix_cache_hits", "num_preemptions", "prompt_tokens", "generation_tokens", "request_success"}) {
    EXPECT_EQ(types.at(std::string("vllm:") + name + "_total"), "counter") << name;
  }
  for (const char* name : {"iteration_tokens_total", "request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens",
                           "request_params_max_tokens", "request_params_n", "time_to_first_token_seconds", "inter_token_latency_seconds",
                           "request_time_per_output_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                           "request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"}) {
    EXPECT_EQ(types.at(std::string("vllm:") + name), "histogram") << name;
  }
  EXPECT_EQ(types.at("quire:steps_total"), "counter");
  EXPECT_EQ(types.at("quire:step_duration_seconds"), "histogram");
  EXPECT_EQ(types.at("quire:queue_rejected_total"), "counter");
  EXPECT_EQ(types.at("quire:fallback_total"), "counter");
}

TEST(Metrics, NumbersAndLabelsReadAsThePythonClientWritesThem) {
  MetricsRegistry registry;
  const Histogram histogram =
      registry.histogram("a_seconds", "one \\ two\nthree", {{"z", "1"}, {"b", "say \"x\"\n\\"}}, {0.001, 0.3, 1, 16384, 2000000});
  histogram.observe(0.25);
  histogram.observe(1);
  registry.gauge("b", "gauge", {}).set(-0.5);
  registry.counter("c:d_total", "counter", {}).add(12345678);
  EXPECT_EQ(registry.render(),
            "# HELP a_seconds one \\\\ two\\nthree\n"
            "# TYPE a_seconds histogram\n"
            "a_seconds_bucket{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\",le=\"0.001\"} 0.0\n"
            "a_seconds_bucket{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\",le=\"0.3\"} 1.0\n"
            "a_seconds_bucket{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\",le=\"1.0\"} 2.0\n"
            "a_seconds_bucket{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\",le=\"16384.0\"} 2.0\n"
            "a_seconds_bucket{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\",le=\"2e+06\"} 2.0\n"
            "a_seconds_bucket{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\",le=\"+Inf\"} 2.0\n"
            "a_seconds_count{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\"} 2.0\n"
            "a_seconds_sum{b=\"say \\\"x\\\"\\n\\\\\",z=\"1\"} 1.25\n"
            "# HELP b gauge\n# TYPE b gauge\nb -0.5\n"
            "# HELP c:d_total counter\n# TYPE c:d_total counter\nc:d_total 1.2345678e+07\n");
}

TEST(Metrics, TheSameSeriesIsGivenTwiceAndMistakesOfOursEndTheProcess) {
  MetricsRegistry registry;
  registry.counter("x_total", "x", {{"code", "200"}}).add();
  const Counter again = registry.counter("x_total", "x", {{"code", "200"}});
  again.add(2);
  EXPECT_EQ(again.value(), 3);
  EXPECT_DEATH((void)registry.counter("not a name", "x", {}), "metric not a name");
  EXPECT_DEATH((void)registry.gauge("x_total", "x", {}), "metric x_total");
  EXPECT_DEATH((void)registry.histogram("h", "x", {}, {1, 1}), "h");
}

TEST(Metrics, BoundsOfTokenCountsEndAtTheModelsLength) {
  EXPECT_EQ(one_two_five_bounds(2048), (std::vector<double>{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}));
  EXPECT_EQ(one_two_five_bounds(1), (std::vector<double>{1}));
  EXPECT_EQ(one_two_five_bounds(2147483647).back(), 2e9);
}

// Everything that was run is counted, once.
TEST(Metrics, CountsEqualACountedWorkload) {
  EngineConfig config = small_config();
  Bench bench(config);
  constexpr int kRequests = 30, kOutputs = 7;
  double prompt_tokens = 0;
  for (int i = 0; i < kRequests; ++i) {
    prompt_tokens += 5 + i;
    bench.submit(make_request(make_prompt(5 + i, static_cast<std::uint64_t>(i)), kOutputs));
  }
  const auto group = std::make_shared<SampleGroup>(3);  // one prompt, three samples
  for (int i = 0; i < 3; ++i) {
    GenerateRequest request = make_request(make_prompt(5, 1), kOutputs + i);
    request.samples = group;
    bench.submit(request);
  }
  ASSERT_TRUE(bench.consumer.wait_finishes(kRequests + 3));
  bench.control->hold();
  const RequestId cancelled = bench.submit(make_request(make_prompt(6, 50), 50));
  bench.engine->cancel(cancelled);
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(kRequests + 4));
  bench.engine->stop(5s);
  bench.consumer.read();
  const double cancelled_tokens = static_cast<double>(bench.consumer.of(cancelled).tokens.size());
  const double reached_first = kRequests + 3 + (cancelled_tokens > 0 ? 1 : 0);
  const double ended = kRequests + 4;
  const double generated = kRequests * kOutputs + 3 * kOutputs + 3 + cancelled_tokens;

  const std::string text = bench.metrics->render();
  const auto value = [&text](const std::string& name) { return sample(text, name + kLabels); };
  const auto reason = [&text](const std::string& r) {
    return sample(text, "vllm:request_success_total{engine=\"0\",finished_reason=\"" + r + "\",model_name=\"tiny\"}");
  };
  EXPECT_EQ(reason("length"), kRequests + 3);
  EXPECT_EQ(reason("abort"), 1);
  EXPECT_EQ(reason("stop"), 0);
  EXPECT_EQ(reason("error"), 0);
  EXPECT_EQ(value("vllm:generation_tokens_total"), generated);
  EXPECT_EQ(value("vllm:prompt_tokens_total"), prompt_tokens + 15 + (cancelled_tokens > 0 ? 6 : 0));
  for (const char* name : {"request_prompt_tokens", "request_generation_tokens", "request_params_max_tokens", "e2e_request_latency_seconds",
                           "request_queue_time_seconds"}) {
    EXPECT_EQ(value(std::string("vllm:") + name + "_count"), ended) << name;
  }
  for (const char* name :
       {"time_to_first_token_seconds", "request_prefill_time_seconds", "request_decode_time_seconds", "request_time_per_output_token_seconds"}) {
    EXPECT_EQ(value(std::string("vllm:") + name + "_count"), reached_first) << name;
  }
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_count"), generated - reached_first);
  EXPECT_EQ(value("vllm:request_prompt_tokens_sum"), prompt_tokens + 15 + 6);
  EXPECT_EQ(value("vllm:request_generation_tokens_sum"), generated);
  // Prompts: 30 alone, one with three samples, one cancelled.
  EXPECT_EQ(value("vllm:request_params_n_count"), kRequests + 2);
  EXPECT_EQ(value("vllm:request_params_n_sum"), kRequests + 1 + 3);
  EXPECT_EQ(value("vllm:request_max_num_generation_tokens_count"), kRequests + 2);
  EXPECT_EQ(value("vllm:request_max_num_generation_tokens_sum"), kRequests * kOutputs + kOutputs + 2 + cancelled_tokens);
  const double steps = static_cast<double>(bench.control->num_submitted());
  EXPECT_EQ(value("quire:steps_total"), steps);
  EXPECT_EQ(value("quire:step_duration_seconds_count"), steps);
  EXPECT_EQ(value("vllm:iteration_tokens_total_count"), steps);
  EXPECT_EQ(value("vllm:num_requests_running"), 0);
  EXPECT_EQ(value("vllm:num_requests_waiting"), 0);
  EXPECT_EQ(value("vllm:kv_cache_usage_perc"), 0);
  const SchedulerStats stats = bench.engine->stats();
  EXPECT_EQ(value("vllm:prefix_cache_queries_total"), static_cast<double>(stats.prefix_queries));
  EXPECT_EQ(value("vllm:prefix_cache_hits_total"), static_cast<double>(stats.prefix_hits));
  EXPECT_GT(stats.prefix_queries, 0u);
}

TEST(Metrics, TimesAddUpForASlowRequest) {
  Bench bench(small_config());
  bench.control->hold();
  bench.submit(make_request({1, 2, 3}, 2));
  bench.control->wait_submitted(1);
  std::this_thread::sleep_for(50ms);
  bench.control->allow(1);
  ASSERT_TRUE(bench.consumer.wait_tokens(1));
  std::this_thread::sleep_for(30ms);
  bench.control->allow(1);
  ASSERT_TRUE(bench.consumer.wait_finishes(1));
  const std::string text = bench.metrics->render();
  const auto sum = [&text](const std::string& name) { return sample(text, "vllm:" + name + "_sum" + kLabels); };
  EXPECT_GE(sum("request_prefill_time_seconds"), 0.045);
  EXPECT_GE(sum("request_decode_time_seconds"), 0.025);
  EXPECT_NEAR(sum("request_prefill_time_seconds") + sum("request_decode_time_seconds"), sum("request_inference_time_seconds"), 1e-6);
  EXPECT_NEAR(sum("request_inference_time_seconds") + sum("request_queue_time_seconds"), sum("e2e_request_latency_seconds"), 1e-6);
  EXPECT_NEAR(sum("inter_token_latency_seconds"), sum("request_decode_time_seconds"), 1e-6);
}

TEST(Metrics, PromtoolFindsNoParseError) {
  if (::access("/usr/bin/promtool", X_OK) != 0) GTEST_SKIP() << "promtool is not installed";
  Bench bench(small_config());
  bench.metrics->set_cache_config({{"block_size", "16"}, {"num_gpu_blocks", "256"}, {"cache_dtype", "auto"}});
  bench.metrics->count_fallback("a", "b", "because \"c\"\nand \\ d");
  bench.submit(make_request({1, 2, 3}, 3));
  ASSERT_TRUE(bench.consumer.wait_finishes(1));
  const quire::test::TempDir dir;
  const auto verdict = [&dir](const std::string& text) {
    const std::string file = dir.write("metrics.txt", text);
    const int status = std::system(("/usr/bin/promtool check metrics < " + file + " > /dev/null 2>&1").c_str());  // NOLINT(cert-env33-c)
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const int code = verdict(bench.metrics->render());
  EXPECT_TRUE(code == 0 || code == 3) << "exit " << code << " (3: lint remarks on vLLM's own names)";
  EXPECT_EQ(verdict("vllm:x{le=} 1\n"), 1) << "the check can fail";
}

TEST(StatsLineTest, SpeaksOncePerPeriodAndOnlyAfterWork) {
  StatsLine line(10.0);
  const auto t0 = StatsLine::Clock::now();
  EXPECT_FALSE(line.due().has_value());
  EXPECT_FALSE(line.take({}, 0, 0, t0 + 100s).has_value());
  line.add(100, 20, t0);
  line.add(0, 30, t0 + 1s);
  SchedulerStats stats;
  stats.num_blocks_total = 200;
  stats.num_blocks_free = 150;
  stats.prefix_queries = 40;
  stats.prefix_hits = 10;
  EXPECT_FALSE(line.take(stats, 3, 4, t0 + 9s).has_value());
  EXPECT_EQ(line.due(), t0 + 10s);
  EXPECT_EQ(line.take(stats, 3, 4, t0 + 10s),
            "engine 0: prompt 10.0 tokens/s, generation 5.0 tokens/s, running 3, waiting 4, KV cache 25.0 %, prefix hits 25.0 %");
  line.add(0, 10, t0 + 12s);
  stats.prefix_queries = 40;
  EXPECT_EQ(line.take(stats, 0, 0, t0 + 20s),
            "engine 0: prompt 0.0 tokens/s, generation 1.0 tokens/s, running 0, waiting 0, KV cache 25.0 %, prefix hits 0.0 %");
  EXPECT_FALSE(line.due().has_value()) << "idle: silent";
  StatsLine off(0);
  off.add(1, 1, t0);
  EXPECT_FALSE(off.take(stats, 1, 0, t0 + 100s).has_value());
}

}  // namespace
}  // namespace quire::engine::test
