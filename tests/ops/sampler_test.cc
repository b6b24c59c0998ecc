// The sampler against its specification (reference/sampling.h). The draw is the inverse of the cumulative distribution in id order at a
// known uniform number, so one token shows the whole kept set: any token more or less moves the boundaries.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/sampler_rig.h"
#include "ops/sampling_math.h"

namespace quire {
namespace {

using test::LogitShape;
using test::SamplerRequest;

constexpr LogitShape kShapes[] = {LogitShape::kPeaked, LogitShape::kFlat, LogitShape::kTies, LogitShape::kImpossible};

template <class T>
T any_of(std::initializer_list<T> values, std::mt19937_64& rng) { return values.begin()[rng() % values.size()]; }

std::vector<TokenId> random_tokens(std::size_t n, std::int64_t vocab, std::mt19937_64& rng) {
  std::vector<TokenId> t(n);
  for (TokenId& x : t) x = static_cast<TokenId>(rng() % static_cast<std::uint64_t>(vocab));
  return t;
}

SamplerRequest random_request(std::int64_t vocab, LogitShape shape, std::mt19937_64& rng) {
  SamplerRequest r{test::random_logits(vocab, shape, rng)};
  r.prompt = random_tokens(1 + rng() % 20, vocab, rng);
  r.outputs = random_tokens(rng() % 12, vocab, rng);
  SamplingParams& p = r.params;
  p.temperature = any_of({0.0, 0.3, 0.7, 1.0, 1.5, 2.0}, rng);
  p.top_k = any_of({0, 0, 1, 2, 5, 40, 1'000'000}, rng);
  p.top_p = any_of({1.0, 1.0, 0.95, 0.5, 0.1, 1e-6}, rng);
  p.min_p = any_of({0.0, 0.0, 0.05, 0.3, 0.97}, rng);
  p.seed = rng();
  if (rng() % 2 == 0) {
    p.repetition_penalty = any_of({1.0, 1.3, 0.8}, rng);
    p.presence_penalty = any_of({0.0, 0.5, -1.5}, rng);
    p.frequency_penalty = any_of({0.0, 0.25, -0.7, 2.0}, rng);
  }
  if (rng() % 4 == 0) p.allowed_token_ids = random_tokens(1 + rng() % 30, vocab, rng);
  if (rng() % 4 == 0)
    for (int i = 0; i < 3; ++i) p.logit_bias.emplace_back(static_cast<TokenId>(rng() % static_cast<std::uint64_t>(vocab)), static_cast<float>(static_cast<double>(rng() % 64) / 8.0 - 4.0));
  if (rng() % 4 == 0) {
    p.min_tokens = static_cast<std::int32_t>(rng() % 14);
    p.eos_token_ids = random_tokens(2, vocab, rng);
    p.stop_token_ids = random_tokens(1, vocab, rng);
  }
  if (rng() % 4 == 0) {
    p.bad_words = {random_tokens(1, vocab, rng), random_tokens(2, vocab, rng), random_tokens(3, vocab, rng)};
    if (r.outputs.size() >= 2) std::copy(r.outputs.end() - 2, r.outputs.end(), p.bad_words[2].begin());  // one that really completes
  }
  p.logprobs = any_of({std::optional<std::int32_t>{}, std::optional(0), std::optional(5), std::optional(20)}, rng);
  return r;
}

// How far float32 arithmetic on the logits may move a probability: four roundings of numbers up to the largest, divided by the temperature.
double uncertainty(const SamplerRequest& r) {
  double largest = 1.0;
  for (const float z : r.logits)
    if (std::isfinite(z)) largest = std::max(largest, static_cast<double>(std::fabs(z)));
  const bool penalised = r.params.presence_penalty != 0.0 || r.params.frequency_penalty != 0.0 || r.params.repetition_penalty != 1.0;
  const bool exact = r.params.logit_bias.empty() && !penalised;
  const double weights = std::ldexp(static_cast<double>(r.logits.size()), -ops::kWeightBits + 1);  // each weight rounds to 2^-44
  const double temperature = r.params.greedy() ? 1.0 : r.params.temperature;
  return weights + 1e-12 + (exact ? 0.0 : 4.0 * 0x1p-24 * 3.0 * (largest + 8.0) / temperature);
}

void check_logprobs(const SamplerRequest& r, const test::Sampled& got) {
  const auto wide = r.wide_logits();
  const auto want = reference::log_softmax(wide);
  const std::int32_t num_top = (r.use == ops::LogitsUse::kScore ? r.params.prompt_logprobs : r.params.logprobs).value_or(-1);
  if (num_top < 0) {
    EXPECT_EQ(got.result.rank, 0);
  } else {
    const auto token = static_cast<std::size_t>(got.result.token);
    if (std::isinf(want[token])) {
      EXPECT_EQ(static_cast<double>(got.result.logprob), want[token]);
    } else {
      EXPECT_NEAR(got.result.logprob, want[token], 1e-5);
    }
    EXPECT_EQ(got.result.rank, reference::rank_of(wide, got.result.token));
  }
  const auto top = reference::top_logprobs(wide, std::max(num_top, 0));
  for (std::size_t i = 0; i < test::kTopStride; ++i) {
    if (i >= top.size()) {
      EXPECT_EQ(got.top_ids[i], test::kUntouched);
      continue;
    }
    const double expected = want[static_cast<std::size_t>(top[i].token)];
    EXPECT_EQ(got.top_ids[i], top[i].token) << "place " << i;
    EXPECT_TRUE(std::isinf(expected) ? static_cast<double>(got.top_logprobs[i]) == expected : std::fabs(static_cast<double>(got.top_logprobs[i]) - expected) < 1e-5) << "place " << i;
  }
}

struct Tally {
  int checked = 0, doubtful = 0;
};

void check_draw(const SamplerRequest& r, const test::Sampled& got, Tally& tally) {
  const auto want = test::distribution_of(r);
  const double doubt = uncertainty(r);
  if (std::accumulate(want.probabilities.begin(), want.probabilities.end(), 0.0) == 0.0) {
    EXPECT_EQ(got.result.failed, ops::LogitsFailure::kEveryMasked) << "no token is possible";
    return;
  }
  ASSERT_EQ(got.result.failed, ops::LogitsFailure::kNone);
  ASSERT_EQ(got.appended, got.result.token);
  const double u = test::uniform_of(r.params.seed, r.outputs.size());
  std::int32_t low = test::token_at(want, u - doubt), high = test::token_at(want, u + doubt);
  if (r.params.greedy()) low = high = test::token_at(want, 0.5);
  if (low != high || want.margin < 4.0 * doubt) {
    ++tally.doubtful;
  } else {
    ++tally.checked;
    EXPECT_EQ(got.result.token, low) << "u " << u << ", margin " << want.margin;
  }
  check_logprobs(r, got);
}

class Vocabularies : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Vocabularies, ::testing::Values(1, 2, 3, 17, 300, 5000));

TEST_P(Vocabularies, TokenEqualsTheSpecificationForAnyParameters) {
  auto rng = test::seeded_rng();
  Tally tally;
  const int rounds = GetParam() > 1000 ? 60 : 250;
  for (int round = 0; round < rounds; ++round) {
    std::vector<SamplerRequest> batch;
    for (const LogitShape shape : kShapes) batch.push_back(random_request(GetParam(), shape, rng));
    const auto got = test::sample_batch(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const SamplingParams& p = batch[i].params;
      SCOPED_TRACE("round " + std::to_string(round) + ", shape " + std::to_string(i) + ", temperature " + std::to_string(p.temperature) + ", top_k " + std::to_string(p.top_k) + ", top_p " +
                   std::to_string(p.top_p) + ", min_p " + std::to_string(p.min_p));
      check_draw(batch[i], got[i], tally);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
  EXPECT_GT(tally.checked, 9 * tally.doubtful) << "the comparison must decide nearly always";
}

// Large vocabularies; the cut falls deep in the order, past the first partial sorts.
TEST(Sampler, TwoHundredThousandTokens) {
  auto rng = test::seeded_rng();
  for (const std::int64_t vocab : {50'000, 200'000})
    for (const LogitShape shape : kShapes)
      for (const auto& [top_k, top_p] : {std::pair{0, 1.0}, {0, 0.9}, {3000, 1.0}, {20'000, 0.7}}) {
        SamplerRequest r{test::random_logits(vocab, shape, rng)};
        r.params.top_k = top_k;
        r.params.top_p = top_p;
        r.params.logprobs = 20;
        r.params.seed = rng();
        Tally tally;
        check_draw(r, test::sample_one(r), tally);
      }
}

// Frequencies of 20,000 seeds: the chi-square statistic of k cells lies below its mean k - 1 plus 5 standard deviations.
TEST(Sampler, FrequenciesOverTwentyThousandSeeds) {
  auto rng = test::seeded_rng();
  for (const LogitShape shape : {LogitShape::kTies, LogitShape::kFlat, LogitShape::kImpossible}) {
    SamplerRequest r{test::random_logits(24, shape, rng)};
    r.params.temperature = 1.3;
    r.params.top_k = 12;
    r.params.top_p = 0.97;
    const auto want = test::distribution_of(r);
    std::vector<double> count(24, 0.0);
    constexpr int kSeeds = 20'000;
    std::vector<SamplerRequest> batch(200, r);
    for (int i = 0; i < kSeeds; i += 200) {
      for (std::size_t j = 0; j < batch.size(); ++j) batch[j].params.seed = static_cast<std::uint64_t>(i) + j;  // neighbouring seeds on purpose
      for (const auto& s : test::sample_batch(batch)) count[static_cast<std::size_t>(s.result.token)] += 1.0;
    }
    double chi_square = 0.0;
    int cells = 0;
    for (std::size_t t = 0; t < count.size(); ++t) {
      const double expected = want.probabilities[t] * kSeeds;
      if (expected == 0.0) {
        EXPECT_EQ(count[t], 0.0) << "token " << t << " was cut";
        continue;
      }
      ++cells;
      chi_square += (count[t] - expected) * (count[t] - expected) / expected;
    }
    ASSERT_GT(cells, 5);
    EXPECT_LT(chi_square, cells - 1 + 5.0 * std::sqrt(2.0 * (cells - 1)));
  }
}

TEST(Sampler, TheSameBitsEveryTimeAndOnAnyNumberOfThreads) {
  auto rng = test::seeded_rng();
  std::vector<SamplerRequest> batch;
  for (int i = 0; i < 40; ++i) batch.push_back(random_request(3000, kShapes[i % 4], rng));
  const auto first = test::sample_batch(batch);
  for (const int threads : {1, 2, 4}) {
    const auto again = test::sample_batch(batch, threads);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(again[i].result.token, first[i].result.token);
      EXPECT_TRUE(test::compare_bits(std::span(&again[i].result.logprob, 1), std::span(&first[i].result.logprob, 1)).equal);
      EXPECT_TRUE(test::compare_bits(again[i].top_logprobs, first[i].top_logprobs).equal);
      EXPECT_EQ(again[i].top_ids, first[i].top_ids);
      const auto alone = test::sample_one(batch[i]);
      EXPECT_EQ(alone.result.token, first[i].result.token) << "alone";
    }
  }
}

TEST(SamplingMath, PhiloxIsTheReferences) {
  auto rng = test::seeded_rng();
  for (int i = 0; i < 2000; ++i) {
    const std::array<std::uint32_t, 4> counter = {static_cast<std::uint32_t>(rng()), static_cast<std::uint32_t>(rng()), static_cast<std::uint32_t>(rng()), static_cast<std::uint32_t>(rng())};
    const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(rng()), static_cast<std::uint32_t>(rng())};
    ASSERT_EQ(ops::philox4x32(counter, key), reference::philox4x32_10(counter, key));
  }
}

TEST(SamplingMath, WeightsAndTheirLogarithms) {
  auto rng = test::seeded_rng();
  const double one = std::ldexp(1.0, ops::kWeightBits);
  EXPECT_EQ(ops::exp_weight(0.0), std::uint64_t{1} << ops::kWeightBits);
  EXPECT_EQ(ops::exp_weight(-31.0), 0u);
  EXPECT_EQ(ops::exp_weight(-std::numeric_limits<double>::infinity()), 0u);
  EXPECT_EQ(ops::exp_weight(std::numeric_limits<double>::quiet_NaN()), 0u);
  for (int i = 0; i < 200'000; ++i) {
    const double x = -31.0 * std::ldexp(static_cast<double>(rng() >> 11), -53);
    ASSERT_NEAR(static_cast<double>(ops::exp_weight(x)), std::exp(x) * one, 0.5 + std::exp(x) * one * 0x1p-50) << x;
    const std::uint64_t w = 1 + (rng() >> (rng() % 60 + 2));
    const double want = std::log(static_cast<double>(w)) - ops::kWeightBits * std::log(2.0);
    ASSERT_NEAR(ops::log_weight(w), want, 1e-14 * (1.0 + std::fabs(want))) << w;
  }
  EXPECT_EQ(ops::log_weight(std::uint64_t{1} << ops::kWeightBits), 0.0);
  EXPECT_EQ(ops::scale_to(~std::uint64_t{0}, 1000), 999u);
  EXPECT_EQ(ops::scale_to(0, 1000), 0u);
  EXPECT_EQ(ops::scale_to(std::uint64_t{1} << 63, 1001), 500u);
}

}  // namespace
}  // namespace quire
