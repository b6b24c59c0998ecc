// exp_f32 over the floats: at most 2 units in the last place, on every instruction set, and exact at its edges.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/exp_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

// n is a multiple of 16.
void exp_floats(const float* x, float* y, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(exp_f32(d, hn::LoadU(d, x + i)), d, y + i);
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/ulps.h"

namespace quire {
HWY_EXPORT(exp_floats);
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

void run(const std::vector<float>& x, std::vector<float>& y) { HWY_DYNAMIC_DISPATCH(exp_floats)(x.data(), y.data(), x.size()); }

TEST(Exp, TwoUnitsInTheLastPlaceOverTheFloats) {
  std::vector<float> x(4096), y(4096);
  double worst = 0.0;
  float worst_at = 0.0f;
  // Every 509th float from +-2^-40 up: all exponents, low bits of every kind.
  for (std::uint64_t bits = 0x2b800000u; bits < 0x42d20000u;) {
    for (std::size_t i = 0; i < x.size(); i += 2, bits += 509) {
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      x[i + 1] = -x[i];
    }
    run(x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      if (exact >= 0x1.ffffffp127) {
        ASSERT_EQ(y[i], kInf) << x[i];
        continue;
      }
      if (exact < 0x1p-151) {
        ASSERT_EQ(y[i], 0.0f) << x[i];
        continue;
      }
      const double u = test::ulps(y[i], exact);
      if (u > worst) worst = u, worst_at = x[i];
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 2.0) << "at " << worst_at;
}

TEST(Exp, Specials) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, nan, 1e30f, -1e30f, 88.72f, 89.0f, 200.0f, -87.4f, -103.9f, -104.1f, std::numeric_limits<float>::denorm_min(), -1e-40f, 1.0f}, y(16);
  run(x, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], kInf);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[3]), 0u) << "exp(-inf) is exactly +0";
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], kInf);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_TRUE(std::isfinite(y[7]));
  EXPECT_EQ(y[8], kInf);
  EXPECT_EQ(y[9], kInf);
  EXPECT_GT(y[10], 0.0f);
  EXPECT_EQ(y[11], std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(y[12], 0.0f);
  EXPECT_EQ(y[13], 1.0f);
  EXPECT_EQ(y[14], 1.0f);
}

// Softmax needs more than accuracy: a larger argument never gets a smaller weight by more than the error, and 0 gets exactly 1.
TEST(Exp, NeverFallsByMoreThanItsError) {
  std::vector<float> x(1 << 16), y(1 << 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -80.0f + 80.0f * static_cast<float>(i) / 65536.0f;
  run(x, y);
  for (std::size_t i = 1; i < x.size(); ++i) ASSERT_GT(y[i], y[i - 1]) << x[i];
}

}  // namespace
}  // namespace quire
#endif
