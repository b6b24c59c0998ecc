// Each stage of the sampler's specification alone, their order where it shows, and the edges.
#include "reference/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kit/seed.h"

namespace quire::reference {
namespace {

using Values = std::vector<double>;
using Tokens = std::vector<TokenId>;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  Values logits;
  SamplingParams params;
  Tokens prompt, outputs;
  [[nodiscard]] Values processed() const { return processed_logits({logits, params, prompt, outputs}); }
  [[nodiscard]] Distribution distribution() const { return sampling_distribution({logits, params, prompt, outputs}); }
  [[nodiscard]] Values probabilities() const { return distribution().probabilities; }
};

// Logits whose softmax is `p`.
Values logits_of(const Values& p) {
  Values out;
  for (const double v : p) out.push_back(std::log(v));
  return out;
}

void expect_near(const Values& got, const Values& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << i;
}

TEST(Sampling, PlainIsSoftmax) { expect_near(Case{logits_of({0.5, 0.3, 0.2}), {}, {}, {}}.probabilities(), {0.5, 0.3, 0.2}); }

TEST(Sampling, TemperatureDividesLogits) {
  Case c{logits_of({0.8, 0.2}), {}, {}, {}};
  c.params.temperature = 0.5;
  expect_near(c.probabilities(), {0.64 / 0.68, 0.04 / 0.68});
}

TEST(Sampling, GreedyTakesTheLargestAndTheLowestIdOfATie) {
  Case c{{1.0, 3.0, 3.0, 2.0}, {}, {}, {}};
  c.params.temperature = 0.0;
  EXPECT_EQ(c.probabilities(), (Values{0, 1, 0, 0}));
  c.params.temperature = 0.9e-5;
  c.params.top_p = 0.1;
  c.params.logit_bias = {{3, 2.0f}};
  EXPECT_EQ(c.probabilities(), (Values{0, 0, 0, 1})) << "bias counts under greedy";
  c.params.temperature = 1e-5;
  EXPECT_FALSE(c.params.greedy());
}

TEST(Sampling, AllowedTokensLeaveNothingElse) {
  Case c{{1, 2, 3, 4}, {}, {}, {}};
  c.params.allowed_token_ids = {0, 2};
  c.params.logit_bias = {{3, 100.0f}};
  EXPECT_EQ(c.processed(), (Values{1, -kInf, 3, -kInf})) << "a bias does not bring a token back";
}

TEST(Sampling, BadWordsLookAtTheEndOfTheOutputs) {
  Case c{{0, 0, 0, 0}, {}, {1, 2}, {}};
  c.params.bad_words = {{1, 2, 3}, {0}, {}};
  EXPECT_EQ(c.processed(), (Values{-kInf, 0, 0, 0})) << "the prompt's end does not count";
  c.outputs = {1, 2};
  EXPECT_EQ(c.processed(), (Values{-kInf, 0, 0, -kInf}));
  c.outputs = {1, 2, 1};
  EXPECT_EQ(c.processed(), (Values{-kInf, 0, 0, 0}));
  c.outputs = {2};
  EXPECT_EQ(c.processed(), (Values{-kInf, 0, 0, 0}));
}

TEST(Sampling, MinTokensMasksEndAndStopTokensUntilReached) {
  Case c{{0, 0, 0, 0}, {}, {}, {3}};
  c.params.min_tokens = 2;
  c.params.eos_token_ids = {0};
  c.params.stop_token_ids = {2};
  EXPECT_EQ(c.processed(), (Values{-kInf, 0, -kInf, 0}));
  c.outputs = {3, 3};
  EXPECT_EQ(c.processed(), (Values{0, 0, 0, 0}));
}

TEST(Sampling, LogitBiasIsLimitedAndAddsUp) {
  Case c{{0, 0, 0}, {}, {}, {}};
  c.params.logit_bias = {{0, 1e6f}, {1, -500.0f}, {2, 1.0f}, {2, 0.5f}};
  EXPECT_EQ(c.processed(), (Values{100, -100, 1.5}));
}

TEST(Sampling, RepetitionCountsPromptAndOutputsOnce) {
  Case c{{2, -2, 2, 0}, {}, {0, 0, 3}, {1, 1}};
  c.params.repetition_penalty = 2.0;
  EXPECT_EQ(c.processed(), (Values{1, -4, 2, 0}));
}

TEST(Sampling, FrequencyAndPresenceCountOutputsAlone) {
  Case c{{2, 2, 2}, {}, {0}, {1, 1, 2}};
  c.params.frequency_penalty = 0.5;
  EXPECT_EQ(c.processed(), (Values{2, 1, 1.5}));
  c.params.frequency_penalty = 0;
  c.params.presence_penalty = -1;
  EXPECT_EQ(c.processed(), (Values{2, 3, 3}));
}

TEST(Sampling, RepetitionActsOnTheBiasedLogitAndBeforeTheOtherPenalties) {
  Case c{{-1}, {}, {}, {0}};
  c.params.logit_bias = {{0, 3.0f}};
  c.params.repetition_penalty = 4.0;
  c.params.presence_penalty = 1.0;
  EXPECT_EQ(c.processed(), (Values{2.0 / 4.0 - 1.0}));
}

TEST(Sampling, MinPIsRelativeToTheLargest) {
  Case c{logits_of({0.5, 0.26, 0.14, 0.1}), {}, {}, {}};
  c.params.min_p = 0.25;  // keeps 0.125 and above
  expect_near(c.probabilities(), {0.5 / 0.9, 0.26 / 0.9, 0.14 / 0.9, 0});
  EXPECT_NEAR(c.distribution().margin, (0.14 - 0.125) / 0.125, 1e-12);
  c.params.min_p = 1.0;
  expect_near(c.probabilities(), {1, 0, 0, 0});
}

TEST(Sampling, MinPSeesTheTemperature) {
  Case c{logits_of({0.8, 0.2}), {}, {}, {}};
  c.params.min_p = 0.2;
  EXPECT_GT(c.probabilities()[1], 0.0);  // 0.2 / 0.8 = 0.25
  c.params.temperature = 0.5;            // 0.0625
  EXPECT_EQ(c.probabilities()[1], 0.0);
}

TEST(Sampling, TopKCutsTiesByTokenId) {
  Case c{{1, 5, 5, 5, 0}, {}, {}, {}};
  c.params.top_k = 2;
  expect_near(c.probabilities(), {0, 0.5, 0.5, 0, 0});
  EXPECT_EQ(c.distribution().margin, 1.0) << "an exact tie is no doubt";
  c.params.top_k = 5;
  EXPECT_GT(c.probabilities()[4], 0.0);
  c.params.top_k = 99;
  EXPECT_GT(c.probabilities()[4], 0.0);
  c.params.top_k = 1;
  EXPECT_EQ(c.probabilities(), (Values{0, 1, 0, 0, 0}));
}

TEST(Sampling, TopPKeepsTheSmallestSetThatReachesIt) {
  Case c{logits_of({0.2, 0.5, 0.3}), {}, {}, {}};
  c.params.top_p = 0.6;
  expect_near(c.probabilities(), {0, 0.625, 0.375});
  c.params.top_p = 0.49;
  expect_near(c.probabilities(), {0, 1, 0});
  c.params.top_p = 1e-9;
  expect_near(c.probabilities(), {0, 1, 0});
  c.params.top_p = 0.81;
  expect_near(c.probabilities(), {0.2, 0.5, 0.3});
  EXPECT_NEAR(c.distribution().margin, 0.01 / 0.81, 1e-12);
}

TEST(Sampling, TopPTiesGoByTokenIdAndAnExactSumIsEnough) {
  Case c{{0, 0, 0, 0}, {}, {}, {}};
  c.params.top_p = 0.5;
  expect_near(c.probabilities(), {0.5, 0.5, 0, 0});
  c.params.top_p = 0.51;
  expect_near(c.probabilities(), {1.0 / 3, 1.0 / 3, 1.0 / 3, 0});
}

TEST(Sampling, TopPCountsWhatTopKLeft) {
  Case c{logits_of({0.4, 0.3, 0.2, 0.1}), {}, {}, {}};
  c.params.top_k = 2;  // 4/7, 3/7
  c.params.top_p = 0.5;
  expect_near(c.probabilities(), {1, 0, 0, 0});
}

TEST(Sampling, NothingPossibleGivesAllZeros) {
  Case c{{1, 2}, {}, {}, {}};
  c.params.allowed_token_ids = {1};
  c.params.min_tokens = 1;
  c.params.eos_token_ids = {1};
  EXPECT_EQ(c.probabilities(), (Values{0, 0}));
  c.params.temperature = 0.0;
  EXPECT_EQ(c.probabilities(), (Values{0, 0}));
}

TEST(Sampling, UnusableLogitsGiveAllZerosEvenWhenMasked) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInf}) {
    Case c{{1, bad, 2}, {}, {}, {}};
    c.params.allowed_token_ids = {0};
    EXPECT_EQ(c.probabilities(), (Values{0, 0, 0}));
  }
  Case masked{{1, -kInf, 2}, {}, {}, {}};
  EXPECT_EQ(masked.probabilities()[1], 0.0);
  EXPECT_GT(masked.probabilities()[0], 0.0);
}

TEST(Sampling, TokensOutsideTheVocabularyEndTheProcess) {
  Case c{{1, 2}, {}, {}, {}};
  c.params.logit_bias = {{2, 1.0f}};
  EXPECT_DEATH((void)c.processed(), "2 of 2");
  c.params.logit_bias = {{-1, 1.0f}};
  EXPECT_DEATH((void)c.processed(), "-1 of 2");
}

TEST(Sampling, RandomCasesSumToOneAndNeverRankAKeptTokenBelowACutOne) {
  auto rng = test::seeded_rng();
  std::uniform_real_distribution<double> unit;
  for (int round = 0; round < 300; ++round) {
    Case c;
    for (int i = 0; i < 40; ++i) c.logits.push_back(std::floor(unit(rng) * 20) / 2 - 5);  // many ties
    c.params.temperature = 0.2 + 2 * unit(rng);
    c.params.top_p = 0.05 + 0.95 * unit(rng);
    c.params.top_k = static_cast<std::int32_t>(unit(rng) * 45);
    c.params.min_p = unit(rng) < 0.5 ? 0.0 : unit(rng) * 0.3;
    const Values p = c.probabilities();
    EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1.0, 1e-12);
    for (std::size_t i = 0; i < p.size(); ++i)
      for (std::size_t j = 0; j < p.size(); ++j) {
        const bool before = c.logits[i] > c.logits[j] || (c.logits[i] == c.logits[j] && i < j);
        EXPECT_FALSE(before && p[i] == 0.0 && p[j] > 0.0) << round << ": " << j << " kept, " << i << " cut";
      }
  }
}

}  // namespace
}  // namespace quire::reference
