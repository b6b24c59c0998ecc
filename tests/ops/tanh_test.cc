// tanh_f32 over the floats: at most 4 units in the last place, on every instruction set, and exact at its edges.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/tanh_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/tanh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

// n is a multiple of 16.
void tanh_floats(const float* x, float* y, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(tanh_f32(d, hn::LoadU(d, x + i)), d, y + i);
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/ulps.h"

namespace quire {
HWY_EXPORT(tanh_floats);
namespace {

void run(const std::vector<float>& x, std::vector<float>& y) { HWY_DYNAMIC_DISPATCH(tanh_floats)(x.data(), y.data(), x.size()); }

TEST(Tanh, FourUnitsInTheLastPlaceOverTheFloats) {
  std::vector<float> x(4096), y(4096);
  double worst = 0.0;
  float worst_at = 0.0f;
  // Every 509th float from the subnormals to 32: all exponents, low bits of every kind.
  for (std::uint64_t bits = 1; bits < 0x42000000u;) {
    for (std::size_t i = 0; i < x.size(); i += 2, bits += 509) {
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      x[i + 1] = -x[i];
    }
    run(x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(std::fabs(y[i]), 1.0f) << x[i];
      const double u = test::ulps(y[i], std::tanh(static_cast<double>(x[i])));
      if (u > worst) worst = u, worst_at = x[i];
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 4.0) << "at " << worst_at;
}

TEST(Tanh, Specials) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN(), tiny = std::numeric_limits<float>::denorm_min();
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, nan, 1e30f, -1e30f, tiny, -tiny, 9.5f, -9.5f, 44.0f, 45.0f, -89.0f, 0.0f, 0.0f}, y(16);
  run(x, y);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[0]), 0u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[1]), 0x80000000u) << "-0 stays -0";
  EXPECT_TRUE(std::isnan(y[4]));
  for (const std::size_t i : {2u, 5u, 9u, 11u, 12u}) EXPECT_EQ(y[i], 1.0f) << x[i];
  for (const std::size_t i : {3u, 6u, 10u, 13u}) EXPECT_EQ(y[i], -1.0f) << x[i];
  EXPECT_EQ(y[7], tiny);
  EXPECT_EQ(y[8], -tiny);
}

}  // namespace
}  // namespace quire
#endif
