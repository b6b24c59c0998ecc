// What `quire bench latency` and `throughput` ask, and where they say a step's time went.
#include "commands/bench_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace quire::commands {
namespace {

using ::testing::HasSubstr;

TEST(EngineWork, HasLengthsPrefixAndIdsThatWereAskedFor) {
  LoadRandom random(5);
  const EngineWork work = random_work({.input_len = 20, .output_len = 8, .prefix_len = 4, .range_ratio = 0.5}, 200, 100, random);
  ASSERT_EQ(work.prompts.size(), 200u);
  std::size_t shortest = 1000, longest = 0;
  std::int64_t in = 0, out = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const auto& prompt = work.prompts[i];
    shortest = std::min(shortest, prompt.size());
    longest = std::max(longest, prompt.size());
    in += static_cast<std::int64_t>(prompt.size());
    out += work.output_lens[i];
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.begin() + 4, work.prompts[0].begin()));
    EXPECT_TRUE(std::ranges::all_of(prompt, [](TokenId id) { return id >= 0 && id < 100; }));
    EXPECT_TRUE(work.output_lens[i] >= 4 && work.output_lens[i] <= 12);
  }
  EXPECT_EQ(shortest, 14u);
  EXPECT_EQ(longest, 34u);
  EXPECT_EQ(work.input_tokens(), in);
  EXPECT_EQ(work.output_tokens(), out);
}

TEST(EngineWork, WhatCannotFitIsRefusedByName) {
  EXPECT_TRUE(check_lengths({.input_len = 100, .output_len = 20, .prefix_len = 8}, 128).ok());
  EXPECT_THAT(check_lengths({.input_len = 100, .output_len = 20, .prefix_len = 9}, 128).error().message, HasSubstr("--input-len 100: prompts and answers of up to 129 tokens do not fit the context of 128"));
  EXPECT_FALSE(check_lengths({.input_len = 100, .output_len = 20, .range_ratio = 0.1}, 128).ok()) << "110 + 22";
}

StepReading reading(std::int64_t steps, double scale) {
  StepReading out;
  out.steps = steps;
  out.submit_seconds = 16.0 * scale;
  out.collect_seconds = 2.0 * scale;
  const auto kernel = [&](device::KernelId id, double seconds) { out.kernels[static_cast<std::size_t>(id)] = {static_cast<std::int64_t>(seconds * scale * 1e9), static_cast<std::int64_t>(10 * scale)}; };
  kernel(device::KernelId::kLinearBF16, 8.0);
  kernel(device::KernelId::kAttnUnifiedBF16, 3.0);
  kernel(device::KernelId::kAttnCombine, 1.0);
  kernel(device::KernelId::kRmsNorm, 0.5);
  kernel(device::KernelId::kSample, 0.25);
  return out;
}

TEST(StepBreakdown, PartsAddUpToTheWallTime) {
  const StepBreakdown b = breakdown(reading(10, 1.0), reading(30, 3.0), 40.0);
  EXPECT_EQ(b.steps, 20);
  const std::pair<const char*, double> expected[] = {{"schedule and deliver", 40.0 - 2.0 * 18.0}, {"prepare and launch", 2.0 * (16.0 - 12.75)}, {"attention", 8.0}, {"linear layers", 16.0}, {"other kernels", 1.0}, {"sample", 0.5}, {"collect", 4.0}};
  ASSERT_EQ(b.parts.size(), std::size(expected));
  double sum = 0.0;
  for (std::size_t i = 0; i < b.parts.size(); ++i) {
    EXPECT_EQ(b.parts[i].name, expected[i].first);
    EXPECT_NEAR(b.parts[i].seconds, expected[i].second, 1e-6) << expected[i].first;
    sum += b.parts[i].seconds;
  }
  EXPECT_NEAR(sum, b.wall_seconds, 1e-9);
  ASSERT_EQ(b.kernels.size(), 5u);
  EXPECT_EQ(b.kernels[0].name, "linear_bf16") << "longest first";
  EXPECT_EQ(b.kernels[0].launches, 20);
}

TEST(StepBreakdown, ReportsNameEveryPart) {
  const StepBreakdown b = breakdown(reading(10, 1.0), reading(30, 3.0), 40.0);
  const LatencyReport latency{.model = "m", .batch_size = 4, .input_len = 32, .output_len = 16, .seconds = {1.0, 3.0}, .latency = distribution({1.0, 3.0}, {50}), .steps = b};
  const std::string text = report_text(latency);
  for (const StepBreakdown::Part& p : b.parts) EXPECT_THAT(text, HasSubstr(p.name));
  EXPECT_THAT(text, HasSubstr("mean 2.00 s"));
  EXPECT_THAT(text, HasSubstr("32.00 output tokens/s"));
  EXPECT_EQ(report_json(latency).at("avg_latency").as_double(), 2.0);
  EXPECT_EQ(report_chart(latency).panels.size(), 2u);
  const ThroughputReport throughput{.model = "m", .num_requests = 4, .input_tokens = 60, .output_tokens = 40, .seconds = 2.0, .steps = b};
  EXPECT_THAT(report_text(throughput), HasSubstr("2.00 requests/s, 20.00 output tokens/s, 50.00 tokens/s in all"));
  EXPECT_EQ(report_json(throughput).at("tokens_per_second").as_double(), 50.0);
  EXPECT_THAT(svg_text(report_chart(throughput)), HasSubstr("linear layers"));
}

}  // namespace
}  // namespace quire::commands
