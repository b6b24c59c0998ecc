// The bounds: real float32 arithmetic in unfavourable orders stays inside them, and a mistake of one weight does not.
#include "kit/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kit/compare.h"
#include "kit/seed.h"
#include "reference/attention.h"
#include "reference/linear.h"
#include "reference/logprobs.h"
#include "reference/norm.h"
#include "reference/rounding.h"
#include "reference/silu_mul.h"

namespace quire::test {
namespace {

using reference::Matrix;

Matrix random_floats(std::int64_t rows, std::int64_t cols, std::mt19937_64& rng, double deviation = 1.0) {
  std::normal_distribution<double> normal(0.0, deviation);
  Matrix m(rows, cols);
  for (double& v : m.values) v = reference::round_to(DType::kF32, normal(rng));
  return m;
}

Matrix elementwise_rounded(Matrix m, DType dtype) {
  for (double& v : m.values) v = reference::round_to(dtype, v);
  return m;
}

float float_dot(std::span<const double> a, std::span<const double> b) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  return sum;
}

TEST(Bounds, Constants) {
  EXPECT_EQ(unit_roundoff(DType::kF32), 0x1p-24);
  EXPECT_EQ(unit_roundoff(DType::kF16), 0x1p-11);
  EXPECT_EQ(unit_roundoff(DType::kBF16), 0x1p-8);
  EXPECT_EQ(smallest_subnormal(DType::kF16), 0x1p-24);
  EXPECT_DOUBLE_EQ(gamma(1000, DType::kF32), 1000 * 0x1p-24 / (1 - 1000 * 0x1p-24));
  EXPECT_DEATH((void)gamma(256, DType::kBF16), "");
}

TEST(Bounds, FloatLinearStaysInsideAndAWrongWeightDoesNot) {
  auto rng = seeded_rng();
  for (const DType output : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Matrix x = random_floats(5, 300, rng), w = random_floats(7, 300, rng, 0.05);
    const Matrix want = reference::linear(x, w);
    Matrix got(5, 7);
    for (std::int64_t m = 0; m < 5; ++m)
      for (std::int64_t n = 0; n < 7; ++n) got.at(m, n) = reference::round_to(output, float_dot(x.row(m), w.row(n)));
    const auto bounds = linear_bounds(x, w, {}, {.output = output});
    const Comparison c = compare(got.values, want.values, bounds);
    EXPECT_TRUE(c.equal) << c.report;
    Matrix wrong = w;
    wrong.at(3, 17) = -wrong.at(3, 17) + 0.2;
    EXPECT_FALSE(compare(reference::linear(x, wrong).values, want.values, bounds).equal) << dtype_name(output);
  }
}

TEST(Bounds, FloatNormStaysInsideAndAForgottenEpsilonDoesNot) {
  auto rng = seeded_rng();
  const Matrix x = random_floats(4, 257, rng, 1e-3);
  const Matrix w = random_floats(1, 257, rng);
  const double eps = reference::round_to(DType::kF32, 1e-5);
  const Matrix want = reference::rms_norm(x, w.values, eps);
  Matrix got = want;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float root = 1.0f / std::sqrt(float_dot(x.row(r), x.row(r)) / 257.0f + static_cast<float>(eps));
    for (std::int64_t i = 0; i < x.cols; ++i) got.at(r, i) = static_cast<float>(x.at(r, i)) * root * static_cast<float>(w.at(0, i));
  }
  const auto bounds = rms_norm_bounds(x, w.values, eps, {});
  const Comparison c = compare(got.values, want.values, bounds);
  EXPECT_TRUE(c.equal) << c.report;
  EXPECT_FALSE(compare(reference::rms_norm(x, w.values, 0.0).values, want.values, bounds).equal);
}

TEST(Bounds, FloatSiluStaysInsideOverItsWholeRange) {
  Matrix x(1, 2 * 400);
  for (std::int64_t i = 0; i < 400; ++i) x.at(0, i) = static_cast<double>(i - 200), x.at(0, 400 + i) = 1.5;
  Matrix got(1, 400);
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto g = static_cast<float>(x.at(0, i));
    got.at(0, i) = g / (1.0f + std::exp(-g)) * 1.5f;
  }
  const Comparison c = compare(got.values, reference::silu_mul(x).values, silu_mul_bounds(x, {}));
  EXPECT_TRUE(c.equal) << c.report;
  got.at(0, 203) *= 1.0001;
  EXPECT_FALSE(compare(got.values, reference::silu_mul(x).values, silu_mul_bounds(x, {})).equal);
}

TEST(Bounds, FloatAttentionStaysInsideAndAMissingKeyDoesNot) {
  auto rng = seeded_rng();
  const Matrix q = random_floats(1, 64, rng), k = random_floats(90, 64, rng), v = random_floats(90, 64, rng);
  const auto want = reference::attend(q.row(0), k, v, 0.125);
  float largest = -1e30f, sum = 0.0f;
  std::vector<float> scores;
  for (std::int64_t j = 0; j < 90; ++j) largest = std::max(largest, scores.emplace_back(float_dot(q.row(0), k.row(j)) * 0.125f));
  std::vector<float> mixed(64, 0.0f);
  for (std::int64_t j = 0; j < 90; ++j) {
    const float weight = std::exp(scores[static_cast<std::size_t>(j)] - largest);
    sum += weight;
    for (std::size_t d = 0; d < 64; ++d) mixed[d] += weight * static_cast<float>(v.row(j)[d]);
  }
  for (float& m : mixed) m /= sum;
  const AttentionBounds bounds = attend_bounds(q.row(0), k, v, 0.125, {});
  const Comparison c = compare(widen(mixed), want.out, bounds.out);
  EXPECT_TRUE(c.equal) << c.report;
  EXPECT_LE(std::fabs(static_cast<double>(largest + std::log(sum)) - want.lse), bounds.lse);
  Matrix fewer_keys = k, fewer_values = v;
  fewer_keys.rows = fewer_values.rows = 89;
  fewer_keys.values.resize(89 * 64);
  fewer_values.values.resize(89 * 64);
  const auto wrong = reference::attend(q.row(0), fewer_keys, fewer_values, 0.125);
  EXPECT_FALSE(compare(wrong.out, want.out, bounds.out).equal);
  EXPECT_GT(std::fabs(wrong.lse - want.lse), bounds.lse);
}

TEST(Bounds, FloatLogSoftmaxStaysInsideAndAShiftDoesNot) {
  auto rng = seeded_rng();
  const Matrix logits = random_floats(1, 600, rng, 5.0);
  const auto want = reference::log_softmax(logits.values);
  float largest = -1e30f, sum = 0.0f;
  for (const double l : logits.values) largest = std::max(largest, static_cast<float>(l));
  for (const double l : logits.values) sum += std::exp(static_cast<float>(l) - largest);
  std::vector<double> got;
  for (const double l : logits.values) got.push_back(static_cast<float>(l) - largest - std::log(sum));
  const auto bounds = log_softmax_bounds(logits.values, {});
  const Comparison c = compare(got, want, bounds);
  EXPECT_TRUE(c.equal) << c.report;
  for (double& g : got) g += 1e-3;
  EXPECT_EQ(compare(got, want, bounds).num_wrong, got.size());
}

TEST(Bounds, OutputRoundingIsCounted) {
  const Matrix x = elementwise_rounded(Matrix(1, 1, {1.0}), DType::kF32), w(1, 1, {1.0 + 0x1p-9});
  const auto bounds = linear_bounds(x, w, {}, {.output = DType::kBF16});
  EXPECT_TRUE(compare(std::vector{1.0}, reference::linear(x, w).values, bounds).equal);
  EXPECT_FALSE(compare(std::vector{1.0}, reference::linear(x, w).values, linear_bounds(x, w, {}, {})).equal);
}

}  // namespace
}  // namespace quire::test
