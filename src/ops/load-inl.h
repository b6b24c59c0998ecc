// Loads of stored elements as float32 vectors, for every storage type. Included once per instruction set.
#if defined(QUIRE_OPS_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_OPS_LOAD_INL_H_
#undef QUIRE_OPS_LOAD_INL_H_
#else
#define QUIRE_OPS_LOAD_INL_H_
#endif

#include <hwy/highway.h>

#include "base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const float* p) { return hn::LoadU(d, p); }
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const BFloat16* p) {
  const hn::Rebind<hwy::bfloat16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::bfloat16_t*>(p)));
}
#if HWY_TARGET <= HWY_AVX2  // better targets have lower bits; these convert in hardware
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const Float16* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
#else
// Highway's conversion without hardware makes finite numbers of infinity and NaN. Here: exponent and fraction in place, times 2^112
// (exact, subnormals included), and the exponent of all ones kept.
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const Float16* p) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::PromoteTo(di, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
  const auto finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto special = hn::Or(hn::BitCast(di, finite), hn::Set(di, 0x7f800000));
  const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), special, hn::BitCast(di, finite));
  return hn::BitCast(d, hn::Or(value, hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)))));
}
#endif

HWY_INLINE float scalar_f32(float x) { return x; }
HWY_INLINE float scalar_f32(BFloat16 x) { return to_float(x); }
HWY_INLINE float scalar_f32(Float16 x) { return to_float(x); }

// Storage rounding: nearest even, through the exact scalar conversions.
HWY_INLINE void store_rounded(float x, float& out) { out = x; }
HWY_INLINE void store_rounded(float x, BFloat16& out) { out = to_bfloat16(x); }
HWY_INLINE void store_rounded(float x, Float16& out) { out = to_float16(x); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
