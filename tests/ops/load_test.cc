// The kernels' vector loads give the scalar conversions' numbers for every bit pattern, on every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/load_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

// n is a multiple of 16.
template <class T>
HWY_INLINE void load_all(const void* in, float* out, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(load_f32(d, static_cast<const T*>(in) + i), d, out + i);
}
void load_f16(const void* in, float* out, std::size_t n) { load_all<Float16>(in, out, n); }
void load_bf16(const void* in, float* out, std::size_t n) { load_all<BFloat16>(in, out, n); }
void load_e4m3(const void* in, float* out, std::size_t n) { load_all<Fp8E4m3>(in, out, n); }
void load_e4m3fnuz(const void* in, float* out, std::size_t n) { load_all<Fp8E4m3Fnuz>(in, out, n); }
void load_e5m2(const void* in, float* out, std::size_t n) { load_all<Fp8E5m2>(in, out, n); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/rounding.h"

namespace quire {
HWY_EXPORT(load_f16);
HWY_EXPORT(load_bf16);
HWY_EXPORT(load_e4m3);
HWY_EXPORT(load_e4m3fnuz);
HWY_EXPORT(load_e5m2);
namespace {

template <class Bits>
void expect_every_pattern(DType dtype, void (*load)(const void*, float*, std::size_t)) {
  const std::size_t n = std::size_t{1} << (8 * sizeof(Bits));
  std::vector<Bits> patterns(n);
  for (std::size_t i = 0; i < n; ++i) patterns[i] = static_cast<Bits>(i);
  std::vector<float> got(n);
  load(patterns.data(), got.data(), n);
  for (std::size_t i = 0; i < n; ++i) {
    const double want = reference::decode(dtype, static_cast<std::uint32_t>(i));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got[i])) << dtype_name(dtype) << " pattern " << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got[i]), want) << dtype_name(dtype) << " pattern " << i;
    ASSERT_EQ(std::signbit(got[i]), std::signbit(want)) << dtype_name(dtype) << " pattern " << i;
  }
}

TEST(Load, EveryPatternOfEveryStorageType) {
  expect_every_pattern<std::uint16_t>(DType::kF16, [](const void* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(load_f16)(in, out, n); });
  expect_every_pattern<std::uint16_t>(DType::kBF16, [](const void* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(load_bf16)(in, out, n); });
  expect_every_pattern<std::uint8_t>(DType::kFp8E4m3, [](const void* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(load_e4m3)(in, out, n); });
  expect_every_pattern<std::uint8_t>(DType::kFp8E4m3Fnuz, [](const void* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(load_e4m3fnuz)(in, out, n); });
  expect_every_pattern<std::uint8_t>(DType::kFp8E5m2, [](const void* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(load_e5m2)(in, out, n); });
}

}  // namespace
}  // namespace quire
#endif
