// Rows of float32 into FP8 or int8 with their scales. Division and rounding are exact by definition and the largest magnitude is the same in
// any order: the same bits on every instruction set. Included once per instruction set.
#if defined(QUIRE_OPS_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_OPS_QUANTISE_INL_H_
#undef QUIRE_OPS_QUANTISE_INL_H_
#else
#define QUIRE_OPS_QUANTISE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/fp8.h"
#include "ops/params.h"
#include "ops/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// fp8::encode, lane by lane: patterns in the low bits.
template <const fp8::Encoding& E, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> encode_fp8(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  constexpr int kDropped = 23 - E.fraction_bits;
  constexpr std::int32_t kSmallestNormal = (127 + 1 - E.bias) << 23, kAligner = (127 + 1 - E.bias - E.fraction_bits + 23) << 23;
  const auto u = hn::BitCast(di, x);
  const auto magnitude = hn::And(u, hn::Set(di, 0x7fffffff)), sign = hn::And(hn::ShiftRight<24>(u), hn::Set(di, 0x80));
  const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(di, 1));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(di, (1 << (kDropped - 1)) - 1)), odd);
  const auto normal = hn::Min(hn::ShiftRight<kDropped>(hn::Sub(rounded, hn::Set(di, (127 - E.bias) << 23))), hn::Set(di, E.largest));
  const auto small = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(di, kAligner)))), hn::Set(di, kAligner));
  const auto bits = hn::IfThenElse(hn::Gt(hn::Set(di, kSmallestNormal), magnitude), small, normal);
  const auto nan = hn::Gt(magnitude, hn::Set(di, 0x7f800000));
  if constexpr (E.unsigned_zero) return hn::IfThenElse(nan, hn::Set(di, E.nan), hn::IfThenElse(hn::Eq(bits, hn::Zero(di)), bits, hn::Or(bits, sign)));
  return hn::Or(hn::IfThenElse(nan, hn::Set(di, E.nan), bits), sign);
}

template <const fp8::Encoding& E>
HWY_NOINLINE void encode_scaled(const float* HWY_RESTRICT x, std::int64_t n, float scale, std::uint8_t* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto divisor = hn::Set(d, scale);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::DemoteTo(d8, encode_fp8<E>(d, hn::Div(hn::LoadU(d, x + i), divisor))), d8, out + i);
  for (; i < n; ++i) out[i] = fp8::encode(E, x[i] / scale);
}

// Largest magnitude; NaN does not count.
HWY_INLINE float largest_magnitude(const float* x, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto most = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    most = hn::Max(most, hn::IfThenElseZero(hn::Eq(v, v), hn::Abs(v)));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < n; ++i)
    if (std::fabs(x[i]) > result) result = std::fabs(x[i]);
  return result;
}

template <const fp8::Encoding& E>
HWY_INLINE void quantise_into(const ops::QuantiseOut& out, std::int64_t row, const float* x, std::int64_t n) {
  std::uint8_t* values = out.values + row * n;
  if (out.quant.scaling == ops::ActScaling::kStatic) {
    for (int copy = 0; copy < out.quant.copies(); ++copy) encode_scaled<E>(x, n, out.quant.scales[static_cast<std::size_t>(copy)], values + copy * out.copy_stride);
    return;
  }
  const bool grouped = out.quant.scaling == ops::ActScaling::kPerGroup;
  const std::int64_t group = grouped ? ops::kScaleGroup : n;
  float* scale = out.scales + row * out.quant.row_scales(n);
  for (std::int64_t begin = 0; begin < n; begin += group, ++scale) {
    const std::int64_t count = std::min(group, n - begin);
    *scale = ops::row_scale(largest_magnitude(x + begin, count), out.quant);
    encode_scaled<E>(x + begin, count, *scale, values + begin);
  }
}

// To the nearest integer, ties to even, of magnitudes below 2^22.
template <class D>
HWY_INLINE hn::Vec<D> nearest_integer(D d, hn::Vec<D> x) { return hn::Sub(hn::Add(x, hn::Set(d, 0x1.8p23f)), hn::Set(d, 0x1.8p23f)); }

// The scale of a group of int8 numbers; NaN if one of them is NaN or infinite.
HWY_INLINE float int8_scale(const float* x) {
  const hn::CappedTag<float, static_cast<std::size_t>(ops::kInt8Sum)> d;
  auto most = hn::Zero(d), poison = hn::Zero(d);
  for (std::int64_t i = 0; i < ops::kInt8Group; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto v = hn::LoadU(d, x + i);
    most = hn::Max(most, hn::Abs(v));
    poison = hn::Add(poison, hn::Mul(v, hn::Zero(d)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, most)) / ops::kLargestInt8 + hn::GetLane(hn::SumOfLanes(d, poison));
}

HWY_NOINLINE void quantise_int8(const ops::QuantiseOut& out, std::int64_t row, const float* HWY_RESTRICT x, std::int64_t n) {
  const hn::CappedTag<float, static_cast<std::size_t>(ops::kInt8Sum)> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::int8_t, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* values = reinterpret_cast<std::int8_t*>(out.values) + row * n;
  float* scales = out.scales + row * out.quant.row_floats(n);
  float* sums = scales + n / ops::kInt8Group;
  const auto largest = hn::Set(d, ops::kLargestInt8);
  for (std::int64_t g = 0; g < n / ops::kInt8Group; ++g, x += ops::kInt8Group, values += ops::kInt8Group) {
    scales[g] = int8_scale(x);
    // No number over 0 or NaN: zeros. A scale of NaN makes NaN of whatever they are multiplied with.
    const bool usable = scales[g] > 0.0f;
    const auto divisor = hn::Set(d, scales[g]);
    for (std::int64_t half = 0; half < ops::kInt8Group; half += ops::kInt8Sum) {
      auto sum = hn::Zero(di);
      for (std::int64_t i = half; i < half + ops::kInt8Sum; i += lanes) {
        const auto quotient = usable ? hn::Div(hn::LoadU(d, x + i), divisor) : hn::Zero(d);
        const auto stored = hn::ConvertTo(di, nearest_integer(d, hn::Max(hn::Min(quotient, largest), hn::Neg(largest))));
        sum = hn::Add(sum, stored);
        hn::StoreU(hn::DemoteTo(d8, stored), d8, values + i);
      }
      *sums++ = static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
    }
  }
}

// Row `row` of y, finished, into `out`.
HWY_NOINLINE void quantise_row(const ops::QuantiseOut& out, std::int64_t row, const float* y, std::int64_t n) {
  if (out.values == nullptr) return;
  if (out.quant.format == ops::ActFormat::kInt8) return quantise_int8(out, row, y, n);
  if (out.quant.format == ops::ActFormat::kFp8E4m3) return quantise_into<fp8::kE4m3>(out, row, y, n);
  quantise_into<fp8::kE4m3Fnuz>(out, row, y, n);
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
