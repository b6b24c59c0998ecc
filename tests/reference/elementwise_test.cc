// Embedding, norm, activation, linear and log-probabilities against values worked out by hand and against identities.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/embed.h"
#include "reference/linear.h"
#include "reference/logprobs.h"
#include "reference/norm.h"
#include "reference/normal_matrix.h"
#include "reference/silu_mul.h"

namespace quire::reference {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Embed, LooksUpRowsInAnyOrder) {
  const Matrix table(3, 2, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(embed(table, std::vector<TokenId>{2, 0, 2}).values, (std::vector<double>{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(embed(table, {}).rows, 0);
  EXPECT_DEATH((void)embed(table, std::vector<TokenId>{3}), "row 3 of 3");
  EXPECT_DEATH((void)embed(table, std::vector<TokenId>{-1}), "row -1 of 3");
}

TEST(RmsNorm, HandComputed) {
  const Matrix y = rms_norm(Matrix(1, 2, {3, 4}), std::vector<double>{1, 2}, 0.0);  // rms = sqrt(12.5)
  EXPECT_DOUBLE_EQ(y.at(0, 0), 3 / std::sqrt(12.5));
  EXPECT_DOUBLE_EQ(y.at(0, 1), 8 / std::sqrt(12.5));
  EXPECT_DOUBLE_EQ(rms_norm(Matrix(1, 1, {1}), std::vector<double>{1}, 3.0).at(0, 0), 0.5);  // eps is inside the root
}

TEST(RmsNorm, IsScaleFreeWithoutEpsilonAndGivesUnitMeanSquare) {
  const Matrix x = normal_matrix(4, 33);
  Matrix scaled = x;
  for (double& v : scaled.values) v *= 1024;
  const std::vector<double> ones(33, 1.0);
  const Matrix y = rms_norm(x, ones, 0.0);
  EXPECT_EQ(y.values, rms_norm(scaled, ones, 0.0).values);
  for (std::int64_t r = 0; r < 4; ++r) {
    double sum = 0;
    for (const double v : y.row(r)) sum += v * v;
    EXPECT_NEAR(sum / 33, 1.0, 1e-14);
  }
}

TEST(RmsNorm, EdgeRows) {
  const std::vector<double> w(2, 1.0);
  const Matrix y = rms_norm(Matrix(4, 2, {0, 0, kNan, 1, kInf, 1, 1, 1}), w, 1e-5);
  EXPECT_EQ(y.at(0, 0), 0.0);
  EXPECT_TRUE(std::isnan(y.at(1, 0)) && std::isnan(y.at(1, 1)));
  EXPECT_TRUE(std::isnan(y.at(2, 0)));
  EXPECT_EQ(y.at(2, 1), 0.0);
  EXPECT_FALSE(std::isnan(y.at(3, 0)));
  EXPECT_TRUE(std::isnan(rms_norm(Matrix(1, 2, {0, 0}), w, 0.0).at(0, 0)));
  EXPECT_EQ(rms_norm(Matrix(0, 2), w, 1e-5).rows, 0);
}

TEST(AddRmsNorm, AddsFirstAndReturnsBoth) {
  const NormedResidual both = add_rms_norm(Matrix(1, 2, {1, 2}), Matrix(1, 2, {2, 2}), std::vector<double>{1, 1}, 0.0);
  EXPECT_EQ(both.residual.values, (std::vector<double>{3, 4}));
  EXPECT_EQ(both.normed.values, rms_norm(Matrix(1, 2, {3, 4}), std::vector<double>{1, 1}, 0.0).values);
}

TEST(Silu, ValuesAndLimits) {
  EXPECT_EQ(silu(0.0), 0.0);
  EXPECT_DOUBLE_EQ(silu(std::log(3.0)), 0.75 * std::log(3.0));  // the logistic of ln 3 is 3/4
  EXPECT_NEAR(silu(2.0) - silu(-2.0), 2.0, 1e-15);              // silu(g) - silu(-g) = g
  EXPECT_EQ(silu(-1e4), 0.0);
  EXPECT_TRUE(std::signbit(silu(-1e4)));
  EXPECT_EQ(silu(1e4), 1e4);
  EXPECT_EQ(silu(kInf), kInf);
  EXPECT_TRUE(std::isnan(silu(-kInf)));
}

// Against the definition by the normal distribution, which the tanh form follows within 4e-4 everywhere (Hendrycks and Gimpel 2016), and itself.
TEST(GeluTanh, ValuesAndLimits) {
  for (double g = -6.0; g <= 6.0; g += 0.125) {
    EXPECT_NEAR(gelu_tanh(g), g * std::erfc(-g / std::sqrt(2.0)) / 2.0, 5e-4) << g;
    EXPECT_NEAR(gelu_tanh(g) - gelu_tanh(-g), g, 1e-14) << g;
  }
  EXPECT_DOUBLE_EQ(gelu_tanh(1.0), 0.8411919906082768);
  EXPECT_LT(gelu_tanh(-6.0), 0.0);  // not lost to cancellation
  EXPECT_EQ(gelu_tanh(0.0), 0.0);
  EXPECT_EQ(gelu_tanh(-1e4), 0.0);
  EXPECT_TRUE(std::signbit(gelu_tanh(-1e4)));
  EXPECT_EQ(gelu_tanh(1e4), 1e4);
  EXPECT_EQ(gelu_tanh(kInf), kInf);
  EXPECT_TRUE(std::isnan(gelu_tanh(-kInf)));
  EXPECT_DOUBLE_EQ(gelu_tanh_mul(Matrix(1, 4, {1.0, 0.0, 2.0, 5.0})).at(0, 0), 2 * 0.8411919906082768);
}

TEST(SiluMul, GateIsTheFirstHalf) {
  const Matrix y = silu_mul(Matrix(1, 4, {std::log(3.0), 0.0, 2.0, 5.0}));
  EXPECT_DOUBLE_EQ(y.at(0, 0), 1.5 * std::log(3.0));
  EXPECT_EQ(y.at(0, 1), 0.0);
  EXPECT_DEATH((void)silu_mul(Matrix(1, 3)), "");
}

TEST(Linear, HandComputedWithAndWithoutBias) {
  const Matrix x(2, 3, {1, 2, 3, -1, 0, 1}), w(2, 3, {1, 0, 1, 0, -2, 0.5});
  EXPECT_EQ(linear(x, w).values, (std::vector<double>{4, -2.5, 0, 0.5}));
  EXPECT_EQ(linear(x, w, std::vector<double>{10, 20}).values, (std::vector<double>{14, 17.5, 10, 20.5}));
  EXPECT_EQ(linear(Matrix(0, 3), w).values.size(), 0u);
  EXPECT_EQ(linear(Matrix(1, 0), Matrix(2, 0), std::vector<double>{1, 2}).values, (std::vector<double>{1, 2}));
  EXPECT_DEATH((void)linear(x, Matrix(2, 2)), "");
}

// Rows taken four at a time give what they give alone, to the bit.
TEST(Linear, RowsDoNotDependOnTheirNeighbours) {
  const Matrix x = normal_matrix(7, 19), w = normal_matrix(5, 19);
  const Matrix together = linear(x, w);
  for (std::int64_t r = 0; r < 7; ++r) {
    const Matrix alone = linear(Matrix(1, 19, {x.row(r).begin(), x.row(r).end()}), w);
    for (std::int64_t n = 0; n < 5; ++n) EXPECT_EQ(alone.at(0, n), together.at(r, n));
  }
}

TEST(LogSoftmax, SumsToOneAndIgnoresAShift) {
  const Matrix logits = normal_matrix(1, 50);
  std::vector<double> shifted = logits.values;
  for (double& v : shifted) v += 4096.0;
  const auto a = log_softmax(logits.values), b = log_softmax(shifted);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::exp(a[i]);
    EXPECT_NEAR(a[i], b[i], 1e-11);
  }
  EXPECT_NEAR(sum, 1.0, 1e-14);
}

TEST(LogSoftmax, HandComputedAndEdges) {
  const auto thirds = log_softmax(std::vector<double>{0.0, std::log(2.0), -kInf});
  EXPECT_DOUBLE_EQ(thirds[0], -std::log(3.0));
  EXPECT_DOUBLE_EQ(thirds[1], std::log(2.0 / 3.0));
  EXPECT_EQ(thirds[2], -kInf);
  EXPECT_EQ(log_softmax(std::vector<double>{5000.0})[0], 0.0);
  EXPECT_TRUE(log_softmax({}).empty());
  for (const auto& bad : {std::vector<double>{kNan, 1.0}, {kInf, 1.0}, {-kInf, -kInf}, {1.0, kNan, -kInf}})
    for (const double v : log_softmax(bad)) EXPECT_TRUE(std::isnan(v));
}

TEST(TopLogprobs, DescendingWithTiesByTokenId) {
  const std::vector<double> row = {-2.0, -1.0, -3.0, -1.0, -kInf};
  const auto top = top_logprobs(row, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 3);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_EQ(top_logprobs(row, 99).size(), 5u);
  EXPECT_TRUE(top_logprobs(row, 0).empty());
  EXPECT_EQ(rank_of(row, 1), 1);
  EXPECT_EQ(rank_of(row, 3), 2);
  EXPECT_EQ(rank_of(row, 4), 5);
  EXPECT_DEATH((void)rank_of(row, 5), "");
}

}  // namespace
}  // namespace quire::reference
