// Single rules of the sampler by hand: ties, penalties, masks, failures, scoring, padding, and what encode_sampling refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/seed.h"
#include "ops/sampler_rig.h"

namespace quire {
namespace {

using test::SamplerRequest;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

SamplerRequest greedy(std::vector<float> logits) {
  SamplerRequest r{std::move(logits)};
  r.params.temperature = 0.0;
  return r;
}
std::int32_t token_of(const SamplerRequest& r) { return test::sample_one(r).result.token; }

TEST(SamplerGreedy, TiesGoToTheLowerIdAndTinyTemperaturesAreGreedy) {
  EXPECT_EQ(token_of(greedy({1, 3, 3, 2})), 1);
  EXPECT_EQ(token_of(greedy({-0.0f, 0.0f})), 0);
  EXPECT_EQ(token_of(greedy({-kInf, -kInf, -1e38f})), 2);
  SamplerRequest r = greedy({1, 3, 3, 2});
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    r.params.seed = seed;
    r.params.temperature = 0.99e-5;
    EXPECT_EQ(token_of(r), 1);
  }
}

TEST(SamplerMasks, AllowedBadWordsEndTokens) {
  SamplerRequest r = greedy({5, 4, 3, 2});
  r.params.allowed_token_ids = {3, 2, 2};
  EXPECT_EQ(token_of(r), 2);
  r = greedy({5, 4, 3, 2});
  r.params.bad_words = {{0}};
  EXPECT_EQ(token_of(r), 1);
  r.params.bad_words = {{7 - 4, 0}};  // 3 then 0
  r.outputs = {1, 3};
  EXPECT_EQ(token_of(r), 1);
  r.outputs = {3, 1};
  EXPECT_EQ(token_of(r), 0);
  r.outputs = {};
  r.prompt = {3};  // the prompt does not count
  EXPECT_EQ(token_of(r), 0);
  r = greedy({5, 4, 3, 2});
  r.params.eos_token_ids = {0};
  r.params.stop_token_ids = {1};
  r.params.min_tokens = 2;
  EXPECT_EQ(token_of(r), 2);
  r.outputs = {2};
  EXPECT_EQ(token_of(r), 2);
  r.outputs = {2, 2};
  EXPECT_EQ(token_of(r), 0);
}

// An empty word says nothing (reference/sampling.h).
TEST(SamplerMasks, AnEmptyBadWordSaysNothing) {
  SamplerRequest r = greedy({5, 4, 3, 2});
  r.params.bad_words = {{}, {1}, {}};
  EXPECT_EQ(token_of(r), 0);
  r.params.bad_words = {{}, {0}, {}, {1}};
  EXPECT_EQ(token_of(r), 2);
}

TEST(SamplerBias, AddsUpAndIsLimitedToAHundred) {
  SamplerRequest r = greedy({0, 1, 2, 0});
  r.params.logit_bias = {{0, 1.5f}, {0, 1.5f}};
  EXPECT_EQ(token_of(r), 0);
  r.params.logit_bias = {{3, 1000.0f}, {0, 99.0f}, {0, 1.5f}};  // 100 against 100.5
  EXPECT_EQ(token_of(r), 0);
  r.params.allowed_token_ids = {1, 2};  // an impossible token stays impossible
  EXPECT_EQ(token_of(r), 2);
}

TEST(SamplerPenalties, OnceForPresenceByCountForFrequencyPromptToo) {
  SamplerRequest r = greedy({4, 3.9f, -1, -1.05f});
  r.prompt = {0};
  r.params.repetition_penalty = 1.1;  // the prompt counts for repetition
  EXPECT_EQ(token_of(r), 1);
  r.prompt = {1, 0, 0, 0, 0};  // once, however often
  EXPECT_EQ(token_of(r), 0);
  r.params.repetition_penalty = 1.0;
  r.params.presence_penalty = 0.3;
  EXPECT_EQ(token_of(r), 0) << "the prompt does not count for presence";
  r.outputs = {0, 0, 0};
  EXPECT_EQ(token_of(r), 1);
  r.params.presence_penalty = 0.0;
  r.params.frequency_penalty = 0.04;
  EXPECT_EQ(token_of(r), 1);
  r.outputs = {0, 0};
  EXPECT_EQ(token_of(r), 0);
  r = greedy({-kInf, -kInf, -1, -1.05f});  // negative logits are multiplied
  r.prompt = {2};
  r.params.repetition_penalty = 1.1;
  EXPECT_EQ(token_of(r), 3);
}

// Penalty bookkeeping must be clean again for the next row of the same thread.
TEST(SamplerPenalties, LeaveNothingBehind) {
  SamplerRequest with = greedy({4, 3.9f, 0, 0}), without = greedy({4, 3.9f, 0, 0});
  with.outputs = {0, 0, 1, 3};
  with.params.frequency_penalty = with.params.presence_penalty = 1.0;
  without.params.frequency_penalty = 0.5;
  const auto got = test::sample_batch({with, without, with, without});
  EXPECT_EQ(got[1].result.token, 0);
  EXPECT_EQ(got[3].result.token, 0);
  EXPECT_EQ(got[0].result.token, got[2].result.token);
}

TEST(SamplerFailures, ABadRowFailsAlone) {
  auto rng = test::seeded_rng();
  for (const float bad : {kNan, -kNan, kInf})
    for (const std::size_t at : {0u, 3u, 6u}) {
      std::vector<SamplerRequest> batch(3, SamplerRequest{test::random_logits(7, test::LogitShape::kFlat, rng)});
      batch[1].logits[at] = bad;
      for (auto& r : batch) r.params.logprobs = 3;
      const auto got = test::sample_batch(batch);
      EXPECT_EQ(got[1].result.failed, ops::LogitsFailure::kNotFinite);
      EXPECT_EQ(got[1].appended, 0) << "a valid id: a later step may already read it";
      EXPECT_EQ(got[1].top_ids[0], test::kUntouched);
      EXPECT_EQ(got[0].result.failed, ops::LogitsFailure::kNone);
      EXPECT_EQ(got[2].result.failed, ops::LogitsFailure::kNone);
      EXPECT_EQ(got[0].result.token, test::sample_one(batch[0]).result.token);
    }
  // Masked or not, a NaN of the model fails the request.
  SamplerRequest masked = greedy({1, kNan, 2});
  masked.params.allowed_token_ids = {0};
  EXPECT_EQ(test::sample_one(masked).result.failed, ops::LogitsFailure::kNotFinite);
}

TEST(SamplerCuts, MinPOfOneKeepsTheTiesOfTheBest) {
  SamplerRequest r{{1, 2, 2, 1.999f}};
  r.params.min_p = 1.0;
  std::vector<int> count(4, 0);
  for (r.params.seed = 0; r.params.seed < 200; ++r.params.seed) ++count[static_cast<std::size_t>(token_of(r))];
  EXPECT_EQ(count[0] + count[3], 0);
  EXPECT_GT(std::min(count[1], count[2]), 50);
}

// A sum that reaches top_p exactly is enough: equal weights are exact, so 2 of 4 are 0.5 to the last bit.
TEST(SamplerCuts, TopPStopsWhereTheSumReachesIt) {
  SamplerRequest r{{3, 3, 3, 3}};
  r.params.top_p = 0.5;
  std::vector<int> count(4, 0);
  for (r.params.seed = 0; r.params.seed < 200; ++r.params.seed) ++count[static_cast<std::size_t>(token_of(r))];
  EXPECT_EQ(count[2] + count[3], 0);
  EXPECT_GT(std::min(count[0], count[1]), 50);
}

TEST(SamplerFailures, NothingPossible) {
  for (const double temperature : {0.0, 1.0}) {
    SamplerRequest r = greedy({-kInf, 2, 3});
    r.params.temperature = temperature;
    r.params.allowed_token_ids = {0};
    const auto got = test::sample_one(r);
    EXPECT_EQ(got.result.failed, ops::LogitsFailure::kEveryMasked);
    EXPECT_TRUE(got.appended >= 0 && got.appended < 3);
    r.logits = {-kInf, -kInf, -kInf};
    EXPECT_EQ(test::sample_one(r).result.failed, ops::LogitsFailure::kEveryMasked);
  }
}

TEST(SamplerScore, GivesTheKnownTokensLogProbability) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 50; ++round) {
    SamplerRequest r{test::random_logits(97, static_cast<test::LogitShape>(round % 4), rng)};
    r.use = ops::LogitsUse::kScore;
    r.prompt = {4, static_cast<TokenId>(rng() % 97)};
    r.params.prompt_logprobs = 7;
    r.params.logprobs = 2;  // not this one
    r.params.bad_words = {{r.prompt[1]}};
    const auto got = test::sample_one(r);
    const auto wide = r.wide_logits();
    const auto want = reference::log_softmax(wide);
    EXPECT_EQ(got.result.token, r.prompt[1]);
    EXPECT_EQ(got.appended, r.prompt[1]);
    EXPECT_EQ(got.result.rank, reference::rank_of(wide, r.prompt[1]));
    const double lp = want[static_cast<std::size_t>(r.prompt[1])];
    EXPECT_TRUE(std::isinf(lp) ? std::isinf(got.result.logprob) : std::fabs(static_cast<double>(got.result.logprob) - lp) < 1e-5);
    EXPECT_EQ(got.top_ids[6], reference::top_logprobs(wide, 7)[6].token);
    EXPECT_EQ(got.top_ids[7], test::kUntouched);
  }
}

TEST(SamplerPadding, RowsWithoutStateDoNothing) {
  const float logits[2] = {kNan, 1};
  const ops::LogitsRow row{-1, 0, 0, ops::LogitsUse::kSample};
  ops::LogitsResult result{9, 9, 9.0f, static_cast<ops::LogitsFailure>(9)};
  std::int32_t top = -5;
  float top_logprob = -5.0f;
  ops::sample(test::op_stream(), {logits, &row, nullptr, nullptr, nullptr, &result, &top, &top_logprob, 4, 2, 1}, 1);
  EXPECT_EQ(result.failed, ops::LogitsFailure::kNone);
  EXPECT_EQ(top, -5);
}

TEST(EncodeSampling, TheLimitIsExactAndNamed) {
  SamplingParams p;
  std::vector<std::int32_t> lists;
  p.allowed_token_ids.assign(kMaxSamplingListEntries, 1);
  EXPECT_TRUE(ops::encode_sampling(p, 1, lists).ok());
  EXPECT_EQ(lists.size(), static_cast<std::size_t>(kMaxSamplingListEntries));
  p.stop_token_ids = {2};
  const auto refused = ops::encode_sampling(p, 1, lists);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("2048"), std::string::npos);
  EXPECT_NE(refused.error().message.find("2049"), std::string::npos);
  // Every list counts: biases twice, words with their lengths; end tokens not under ignore_eos.
  SamplingParams q;
  q.logit_bias.assign(1000, {1, 0.5f});
  q.bad_words.assign(12, {1, 2, 3});
  EXPECT_TRUE(ops::encode_sampling(q, 1, lists).ok());
  EXPECT_EQ(lists.size(), 2048u);
  q.eos_token_ids = {3};
  EXPECT_FALSE(ops::encode_sampling(q, 1, lists).ok());
  q.ignore_eos = true;
  EXPECT_TRUE(ops::encode_sampling(q, 1, lists).ok());
}

}  // namespace
}  // namespace quire
