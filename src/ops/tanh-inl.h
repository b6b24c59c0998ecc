// tanh() of float32 vectors for the soft cap of attention scores. Up to 0.625 an odd polynomial (minimax in relative error, 4.4e-9 on
// that interval), beyond it 1 - 2 / (e^2|x| + 1), whose cancellation is at most one bit there. Error below 4 units in the last place
// (tests/ops); never outside [-1, 1]; tanh(+-inf) = +-1, -0 stays -0, NaN stays NaN.
#if defined(QUIRE_OPS_TANH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_OPS_TANH_INL_H_
#undef QUIRE_OPS_TANH_INL_H_
#else
#define QUIRE_OPS_TANH_INL_H_
#endif

#include <hwy/highway.h>

#include "ops/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> tanh_f32(D d, hn::Vec<D> x) {
  const auto size = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto z = hn::Mul(x, x);
  auto p = hn::Set(d, -5.70498781e-3f);
  p = hn::MulAdd(p, z, hn::Set(d, 2.0639088e-2f));
  p = hn::MulAdd(p, z, hn::Set(d, -5.37397153e-2f));
  p = hn::MulAdd(p, z, hn::Set(d, 1.33314422e-1f));
  p = hn::MulAdd(p, z, hn::Set(d, -3.33332819e-1f));
  const auto small = hn::MulAdd(hn::Mul(p, z), x, x);
  const auto e = exp_f32(d, hn::Add(size, size));
  const auto large = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
  // The polynomial's x + x z p would turn -0 into +0 without fused multiply-add: the smallest arguments are their own tanh.
  const auto curved = hn::IfThenElse(hn::Lt(size, hn::Set(d, 1.0e-4f)), x, small);
  const auto result = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), curved, large);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
