// Frequencies worked out by hand for every scaling, and the rotation's own identities.
#include "reference/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "reference/normal_matrix.h"

namespace quire::reference {
namespace {

using model::RopeKind;
using model::RopeSpec;

constexpr double kTurn = 2.0 * std::numbers::pi;

TEST(Rope, HandComputedPairing) {
  // One head of 4: pairs (0, 2) and (1, 3). A quarter turn sends (a, b) to (-b, a).
  const Rotation quarter{{std::numbers::pi / 2, 0.0}, 1.0};
  const Matrix y = rope(Matrix(1, 4, {1, 2, 3, 4}), std::vector<std::int64_t>{1}, quarter);
  EXPECT_NEAR(y.at(0, 0), -3, 1e-15);
  EXPECT_EQ(y.at(0, 1), 2);
  EXPECT_NEAR(y.at(0, 2), 1, 1e-15);
  EXPECT_EQ(y.at(0, 3), 4);
}

TEST(Rope, PreservesPairNormsAndScalesByTheFactor) {
  const Matrix x = normal_matrix(3, 32);
  Rotation rotation = rotation_of({{}, 16, 2048, 2048});
  rotation.attention_scale = 1.5;
  const Matrix y = rope(x, std::vector<std::int64_t>{0, 7, 1999}, rotation);
  for (std::int64_t t = 0; t < 3; ++t)
    for (std::int64_t head = 0; head < 2; ++head)
      for (std::int64_t i = 0; i < 8; ++i) {
        const std::int64_t c = head * 16 + i;
        EXPECT_NEAR(std::hypot(y.at(t, c), y.at(t, c + 8)), 1.5 * std::hypot(x.at(t, c), x.at(t, c + 8)), 1e-13);
      }
  for (std::int64_t c = 0; c < 32; ++c) EXPECT_EQ(y.at(0, c), 1.5 * x.at(0, c));
}

TEST(Rope, ScoresDependOnTheDistanceAlone) {
  const Matrix q = normal_matrix(1, 64);
  Matrix k = q;
  for (double& v : k.values) v = std::sin(v) + 0.3;
  const Rotation rotation = rotation_of({{}, 64, 2048, 2048});
  const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
    const Matrix a = rope(q, std::vector{at_q}, rotation), b = rope(k, std::vector{at_k}, rotation);
    double sum = 0;
    for (std::size_t i = 0; i < 64; ++i) sum += a.values[i] * b.values[i];
    return sum;
  };
  EXPECT_NEAR(score(5, 3), score(1005, 1003), 1e-10);
  EXPECT_GT(std::fabs(score(5, 3) - score(5, 4)), 1e-3);
}

TEST(Rope, Float32AnglesAreOffByARoundingAtMost) {
  const Rotation exact{{0.1}, 1.0};
  const Rotation coarse{{0.1}, 1.0, AnglePrecision::kFloat32};
  const std::vector<std::int64_t> position = {1003};
  const double angle = static_cast<double>(1003.0f * 0.1f);
  EXPECT_EQ(rope(Matrix(1, 2, {1, 0}), position, coarse).at(0, 0), std::cos(angle));
  const double moved = std::fabs(rope(Matrix(1, 2, {1, 0}), position, exact).at(0, 0) - std::cos(angle));
  EXPECT_GT(moved, 1e-8);
  EXPECT_LT(moved, 101 * 2 * 0x1p-24);
}

TEST(RopeFrequencies, DefaultAndLinear) {
  RopeSpec spec;
  spec.theta = 10000;
  const Rotation plain = rotation_of({spec, 8, 2048, 2048});
  ASSERT_EQ(plain.frequencies.size(), 4u);
  EXPECT_DOUBLE_EQ(plain.frequencies[0], 1.0);
  EXPECT_NEAR(plain.frequencies[1], 0.1, 1e-16);
  EXPECT_NEAR(plain.frequencies[3], 0.001, 1e-18);
  EXPECT_EQ(plain.attention_scale, 1.0);
  spec.kind = RopeKind::kLinear;
  spec.factor = 4;
  EXPECT_NEAR(rotation_of({spec, 8, 2048, 2048}).frequencies[1], 0.025, 1e-16);
}

TEST(RopeFrequencies, DynamicActsBeyondTheTrainedLengthOnly) {
  RopeSpec spec;
  spec.kind = RopeKind::kDynamic;
  spec.factor = 2;
  const auto plain = rotation_of({{}, 8, 1024, 1024}).frequencies;
  EXPECT_EQ(rotation_of({spec, 8, 1024, 512}).frequencies, plain);
  EXPECT_EQ(rotation_of({spec, 8, 1024, 1024}).frequencies, plain);
  // Served twice as long: theta * (2 * 2 - 1)^(8/6); frequency i is theta^(-i/4).
  const auto longer = rotation_of({spec, 8, 1024, 2048}).frequencies;
  const double theta = 10000 * std::pow(3.0, 8.0 / 6.0);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(longer[static_cast<std::size_t>(i)] * std::pow(theta, i / 4.0), 1.0, 1e-14);
  EXPECT_EQ(longer[0], 1.0);
}

TEST(RopeFrequencies, Llama3KeepsHighFrequenciesAndDividesLowOnes) {
  RopeSpec spec;
  spec.kind = RopeKind::kLlama3;
  spec.theta = 500000;
  spec.factor = 8;
  spec.low_freq_factor = 1;
  spec.high_freq_factor = 4;
  spec.original_max_position_embeddings = 8192;
  const auto scaled = rotation_of({spec, 128, 131072, 131072}).frequencies;
  int kept = 0, divided = 0, between = 0;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const double f = std::pow(500000.0, -static_cast<double>(i) / 64.0), turns = 8192 * f / kTurn;
    if (turns > 4) {
      ++kept;
      EXPECT_DOUBLE_EQ(scaled[i], f);
    } else if (turns < 1) {
      ++divided;
      EXPECT_DOUBLE_EQ(scaled[i], f / 8);
    } else {
      ++between;
      EXPECT_DOUBLE_EQ(scaled[i], f * (1.0 / 8 + (1 - 1.0 / 8) * (turns - 1) / 3));
    }
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(divided, 20);
  EXPECT_GT(between, 3);
}

RopeSpec yarn_spec() {
  RopeSpec spec;
  spec.kind = RopeKind::kYarn;
  spec.theta = 10000;
  spec.factor = 4;
  spec.original_max_position_embeddings = 4096;
  return spec;
}

TEST(RopeFrequencies, YarnRampsBetweenTheTwoDimensions) {
  // 128 ln(4096 / 64 pi) / 2 ln 10^4 = 20.94; 128 ln(4096 / 2 pi) / 2 ln 10^4 = 45.03: the ramp goes from 20 to 46.
  const auto scaled = rotation_of({yarn_spec(), 128, 16384, 16384}).frequencies;
  const auto plain = rotation_of({{}, 128, 16384, 16384}).frequencies;
  for (std::size_t i = 0; i <= 20; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i]) << i;
  for (std::size_t i = 46; i < 64; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4) << i;
  EXPECT_NEAR(scaled[33] / plain[33], (0.5 + 0.5 / 4), 1e-14);  // the middle of the ramp
  RopeSpec exact = yarn_spec();
  exact.truncate = false;
  EXPECT_NEAR(rotation_of({exact, 128, 16384, 16384}).frequencies[21] / plain[21], 1 - 0.75 * (21 - 20.944) / (45.026 - 20.944), 1e-4);
}

TEST(RopeFrequencies, YarnAttentionScale) {
  RopeSpec spec = yarn_spec();
  EXPECT_DOUBLE_EQ(rotation_of({spec, 64, 16384, 16384}).attention_scale, 0.1 * std::log(4.0) + 1);
  spec.mscale = 0.5;
  EXPECT_DOUBLE_EQ(rotation_of({spec, 64, 16384, 16384}).attention_scale, 0.1 * std::log(4.0) + 1) << "mscale alone says nothing";
  spec.mscale_all_dim = 1.0;
  EXPECT_DOUBLE_EQ(rotation_of({spec, 64, 16384, 16384}).attention_scale, (0.05 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1));
  spec.attention_factor = 1.25;
  EXPECT_EQ(rotation_of({spec, 64, 16384, 16384}).attention_scale, 1.25);
  RopeSpec shorter = yarn_spec();
  shorter.factor = 0.5;
  EXPECT_EQ(rotation_of({shorter, 64, 16384, 16384}).attention_scale, 1.0);
}

}  // namespace
}  // namespace quire::reference
