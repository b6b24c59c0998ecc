// One request in front of the sampler: logits, parameters, prompt and outputs in; result, top list and history out.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/op_kit.h"
#include "ops/sample.h"
#include "reference/logprobs.h"
#include "reference/philox.h"
#include "reference/sampling.h"

namespace quire::test {

struct Sampled {
  ops::LogitsResult result;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_logprobs;
  std::int32_t appended;  // history at the position of the token
};

struct SamplerRequest {
  std::vector<float> logits;
  SamplingParams params = {};
  std::vector<TokenId> prompt = {0}, outputs = {};
  ops::LogitsUse use = ops::LogitsUse::kSample;
  [[nodiscard]] std::vector<TokenId> all() const {
    std::vector<TokenId> a = prompt;
    a.insert(a.end(), outputs.begin(), outputs.end());
    return a;
  }
  [[nodiscard]] std::vector<double> wide_logits() const { return {logits.begin(), logits.end()}; }
};

inline constexpr std::int64_t kTopStride = 24;
inline constexpr std::int32_t kUntouched = -77;

// The requests as one batch; each has its own state row, in reverse order.
inline std::vector<Sampled> sample_batch(const std::vector<SamplerRequest>& requests, int threads = 1) {
  const std::size_t n = requests.size(), vocab = requests.at(0).logits.size();
  std::size_t stride = 0;
  for (const auto& r : requests) stride = std::max(stride, r.all().size() + 2);
  std::vector<ops::SamplingState> states(n);
  std::vector<std::int32_t> lists(n * kMaxSamplingListEntries, kUntouched), history(n * stride, kUntouched);
  GuardedBuffer logits(DType::kF32, n * vocab), top_logprobs(DType::kF32, n * kTopStride);
  std::vector<ops::LogitsRow> rows(n);
  std::vector<ops::LogitsResult> results(n, ops::LogitsResult{-1, -1, -1.0f, static_cast<ops::LogitsFailure>(-1)});
  std::vector<std::int32_t> top_ids(n * kTopStride, kUntouched);
  for (std::size_t i = 0; i < n; ++i) {
    const SamplerRequest& r = requests[i];
    const std::size_t row = n - 1 - i;
    std::copy(r.logits.begin(), r.logits.end(), logits.as<float>().begin() + static_cast<std::ptrdiff_t>(i * vocab));
    std::vector<std::int32_t> list;
    states[row] = ops::encode_sampling(r.params, static_cast<std::int32_t>(r.prompt.size()), list).value();
    std::copy(list.begin(), list.end(), lists.begin() + static_cast<std::ptrdiff_t>(row * kMaxSamplingListEntries));
    const auto all = r.all();
    std::copy(all.begin(), all.end(), history.begin() + static_cast<std::ptrdiff_t>(row * stride));
    rows[i] = {static_cast<std::int32_t>(row), static_cast<std::int32_t>(all.size()), static_cast<std::int32_t>(r.outputs.size()), r.use};
    if (r.use == ops::LogitsUse::kScore) --rows[i].position;
  }
  ops::sample(op_stream(threads),
              {logits.as<float>().data(), rows.data(), states.data(), lists.data(), history.data(), results.data(), top_ids.data(), top_logprobs.as<float>().data(),
               static_cast<std::int64_t>(stride), static_cast<std::int64_t>(vocab), kTopStride},
              static_cast<std::int64_t>(n));
  EXPECT_EQ(top_logprobs.damage() + logits.damage(), "");
  std::vector<Sampled> out;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t row = n - 1 - i, top = i * kTopStride;
    const auto all = requests[i].all();
    EXPECT_TRUE(std::equal(all.begin(), all.end() - (requests[i].use == ops::LogitsUse::kScore ? 1 : 0), history.begin() + static_cast<std::ptrdiff_t>(row * stride))) << "the history changed";
    EXPECT_EQ(history[row * stride + all.size() + 1], kUntouched);
    const auto ids = std::span(top_ids).subspan(top, kTopStride);
    const auto probs = top_logprobs.as<float>().subspan(top, kTopStride);
    out.push_back({results[i], {ids.begin(), ids.end()}, {probs.begin(), probs.end()}, history[row * stride + static_cast<std::size_t>(rows[i].position)]});
  }
  return out;
}

inline Sampled sample_one(const SamplerRequest& r, int threads = 1) { return sample_batch({r}, threads)[0]; }

inline reference::Distribution distribution_of(const SamplerRequest& r) {
  const auto wide = r.wide_logits();
  return reference::sampling_distribution({wide, r.params, r.prompt, r.outputs});
}

// The uniform number in [0, 1) that the draw of output `index` uses.
inline double uniform_of(std::uint64_t seed, std::size_t index) {
  const auto w = reference::philox4x32_10({static_cast<std::uint32_t>(index), 0, 0, 0}, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return std::ldexp(static_cast<double>(w[0]), -32) + std::ldexp(static_cast<double>(w[1]), -64);
}

// The token whose part of the distribution, in rising id order, holds `u`; -1: the last one.
inline std::int32_t token_at(const reference::Distribution& d, double u) {
  double sum = 0.0;
  for (std::size_t i = 0; i < d.probabilities.size(); ++i) {
    sum += d.probabilities[i];
    if (d.probabilities[i] > 0.0 && sum > u) return static_cast<std::int32_t>(i);
  }
  return -1;
}

enum class LogitShape { kPeaked, kFlat, kTies, kImpossible };

inline std::vector<float> random_logits(std::int64_t vocab, LogitShape shape, std::mt19937_64& rng) {
  std::normal_distribution<double> normal(0.0, shape == LogitShape::kPeaked ? 8.0 : shape == LogitShape::kFlat ? 0.02 : 2.0);
  std::vector<float> z(static_cast<std::size_t>(vocab));
  for (float& v : z) {
    v = static_cast<float>(normal(rng));
    if (shape == LogitShape::kTies) v = std::round(v);
    if (shape == LogitShape::kImpossible && rng() % 3 == 0) v = -std::numeric_limits<float>::infinity();
  }
  if (shape == LogitShape::kImpossible) z[rng() % z.size()] = 1.0f;
  return z;
}

}  // namespace quire::test
