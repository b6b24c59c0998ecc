// exp() of float32 vectors for softmax and silu: the argument is split as k ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite), e^r is its
// Taylor series to the 7th power (error below 2^-26 on that interval), and 2^k goes into the exponent in two halves, so that results
// fade through the subnormals. Relative error below 2 units in the last place (tests/ops). exp(-inf) = 0, NaN stays NaN.
#if defined(QUIRE_OPS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_OPS_EXP_INL_H_
#undef QUIRE_OPS_EXP_INL_H_
#else
#define QUIRE_OPS_EXP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> exp_f32(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Beyond these the result is 0 or infinity whatever the low bits are; clamping keeps k within int range. NaN passes through both.
  const auto clamped = hn::Max(hn::Min(x, hn::Set(d, 89.0f)), hn::Set(d, -104.0f));
  const auto k = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(k, hn::Set(d, 0.693359375f), clamped);      // ln 2, upper bits: exact product
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4f), r);              // ln 2, the rest
  auto e = hn::Set(d, 1.0f / 5040);
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 720));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 120));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 24));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f / 6));
  e = hn::MulAdd(e, r, hn::Set(d, 0.5f));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f));
  e = hn::MulAdd(e, r, hn::Set(d, 1.0f));
  const auto ki = hn::ConvertTo(di, k);
  const auto half = hn::ShiftRight<1>(ki);
  const auto bias = hn::Set(di, 127);
  const auto s1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto s2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(ki, half), bias)));
  const auto result = hn::Mul(hn::Mul(e, s1), s2);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
