// The arithmetic of `quire bench serve` on times that are known, and its reports.
#include "commands/serve_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <cmath>

#include "commands/bench_serve.h"

namespace quire::commands {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Binary fractions, so that sums are exact.
std::vector<RequestRecord> known() {
  return {{.due = 0.0, .sent = 0.0, .ended = 2.25, .pieces = {0.5, 1.0, 2.0}, .failure = {}, .input_tokens = 10, .output_tokens = 4},
          {.due = 0.0, .sent = 1.0, .ended = 3.0, .pieces = {1.25, 3.0}, .failure = {}, .input_tokens = std::nullopt, .output_tokens = std::nullopt},
          {.due = 2.0, .sent = 2.0, .ended = 2.5, .pieces = {}, .failure = "HTTP 503: full", .input_tokens = std::nullopt, .output_tokens = std::nullopt},
          {.due = 3.0, .sent = 3.0, .ended = 4.0, .pieces = {}, .failure = {}, .input_tokens = 7, .output_tokens = 1},
          {.due = 3.0, .sent = 3.5, .ended = 4.5, .pieces = {4.0}, .failure = {}, .input_tokens = 1, .output_tokens = 1}};
}

TEST(ServeMetrics, KnownTimesGiveKnownNumbers) {
  const ServeSummary s = summarise(known(), {0, 50, 100});
  EXPECT_EQ(s.completed, 4);
  EXPECT_EQ(s.failed, 1);
  EXPECT_THAT(s.failures, ElementsAre(Pair("HTTP 503: full", 1)));
  EXPECT_EQ(s.duration_seconds, 4.5);
  EXPECT_EQ(s.input_tokens, 18);
  EXPECT_EQ(s.uncounted_inputs, 1);
  EXPECT_EQ(s.output_tokens, 8) << "4 + 2 pieces + 1 + 1";
  EXPECT_EQ(s.outputs_by_pieces, 1);
  EXPECT_EQ(s.without_text, 1);
  EXPECT_EQ(s.num_pieces, 6);
  EXPECT_EQ(s.peak_concurrency, 3);
  EXPECT_EQ(s.requests_per_second(), 4 / 4.5);
  EXPECT_EQ(s.output_tokens_per_second(), 8 / 4.5);
  EXPECT_EQ(s.tokens_per_second(), 26 / 4.5);
  // TTFT 0.5, 0.25, 0.5; the failed one and the one without text have none.
  EXPECT_EQ(s.ttft.count, 3u);
  EXPECT_EQ(s.ttft.median, 0.5);
  EXPECT_THAT(s.ttft.percentiles, ElementsAre(Pair(0, 0.25), Pair(50, 0.5), Pair(100, 0.5)));
  // TPOT (2 - 0.5) / 3 and (2 - 0.25) / 1; a single token has none.
  EXPECT_EQ(s.tpot.count, 2u);
  EXPECT_EQ(s.tpot.mean, (0.5 + 1.75) / 2);
  // ITL 0.5, 1, 1.75.
  EXPECT_EQ(s.itl.count, 3u);
  EXPECT_EQ(s.itl.mean, 3.25 / 3);
  EXPECT_EQ(s.itl.median, 1.0);
  // E2EL 2, 2, 0.5: to the last piece, not to the connection's end.
  EXPECT_EQ(s.e2el.mean, 1.5);
  // Deviation of the population: sqrt((0.25 + 0.25 + 1) / 3).
  EXPECT_DOUBLE_EQ(s.e2el.deviation, std::sqrt(0.5));
  EXPECT_EQ(s.send_delay.count, 5u);
  EXPECT_EQ(s.send_delay.mean, 1.5 / 5);
}

TEST(ServeMetrics, PercentilesLieBetweenRanks) {
  const Distribution d = distribution({4, 1, 3, 2}, {0, 25, 50, 90, 100});
  EXPECT_THAT(d.percentiles, ElementsAre(Pair(0, 1.0), Pair(25, 1.75), Pair(50, 2.5), Pair(90, ::testing::DoubleEq(3.7)), Pair(100, 4.0)));
  EXPECT_EQ(d.deviation, std::sqrt(1.25));
}

TEST(ServeMetrics, NothingIsNoNumber) {
  const ServeSummary none = summarise({}, {99});
  EXPECT_EQ(none.duration_seconds, 0.0);
  EXPECT_EQ(none.requests_per_second(), 0.0);
  EXPECT_THAT(none.ttft.percentiles, ElementsAre(Pair(99, 0.0)));
  EXPECT_EQ(none.peak_concurrency, 0);
}

TEST(ServeMetrics, PeaksCountOpenIntervals) {
  EXPECT_EQ(peak_overlap({{0, 1}, {1, 2}, {2, 3}}), 1) << "one begins as another ends";
  EXPECT_EQ(peak_overlap({{0, 3}, {1, 2}, {1, 4}, {5, 6}}), 3);
}

BenchServeRequest example_request() {
  BenchServeRequest r{.target = http::parse_base_url("http://h:1", "f").value(), .question = {.model = "m"}, .load = {.num_prompts = 5}, .dataset = {}, .percentiles = {50, 99.9}};
  r.question.max_concurrency = 3;
  return r;
}

TEST(ServeReport, TextSaysWhatTheNumbersLack) {
  const std::string text = bench_serve_text(example_request(), summarise(known(), {50, 99.9}));
  for (const char* part : {"m at http://h:1/v1/completions", "5 requests, all at once, at most 3 at a time", "4 completed, 1 failed, in 4.50 s; at most 3 at a time", "1: HTTP 503: full", "18 in, 8 out in 6 pieces",
                           "0.89 requests/s, 1.78 output tokens/s, 5.78 tokens/s in all", "no output tokens of 1 requests", "no input tokens of 1 requests", "1 requests ended well and sent no text", "p99.9"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(ServeReport, JsonHasTheNamesOfVllm) {
  const boost::json::object json = bench_serve_json(example_request(), summarise(known(), {50, 99.9}));
  for (const char* name : {"duration", "completed", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput", "total_token_throughput", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms",
                           "p99.9_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "p50_itl_ms", "mean_e2el_ms", "p99.9_e2el_ms"})
    EXPECT_TRUE(json.contains(name)) << name;
  EXPECT_EQ(json.at("median_ttft_ms").as_double(), 500.0);
  EXPECT_EQ(json.at("request_rate").as_string(), "inf");
  EXPECT_EQ(boost::json::serialize(json.at("failures")), R"({"HTTP 503: full":1})");
}

TEST(ServeReport, TheChartHasAPanelForEachLatency) {
  const BarChart chart = bench_serve_chart(example_request(), summarise(known(), {50, 99.9}));
  ASSERT_EQ(chart.panels.size(), 4u);
  EXPECT_EQ(chart.panels[0].groups.size(), 3u) << "mean and two percentiles";
  EXPECT_EQ(*chart.panels[0].groups[1].bars[0].value, 500.0);
  EXPECT_THAT(svg_text(chart), HasSubstr("</svg>"));
}

TEST(Percentiles, AreReadOrRefused) {
  EXPECT_THAT(read_percentiles("99,50,99,12.5").value(), ElementsAre(12.5, 50, 99));
  for (const char* text : {"", ",", "x", "101", "-1", "nan"}) EXPECT_THAT(read_percentiles(text).error().message, HasSubstr("--percentiles")) << text;
}

}  // namespace
}  // namespace quire::commands
