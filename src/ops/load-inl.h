// Loads of stored elements as float32 vectors, for every storage type. Included once per instruction set.
#if defined(QUIRE_OPS_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_OPS_LOAD_INL_H_
#undef QUIRE_OPS_LOAD_INL_H_
#else
#define QUIRE_OPS_LOAD_INL_H_
#endif

#include <hwy/highway.h>

#include "base/dtype.h"
#include "base/fp8.h"

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
// Sixteen bits a lane, holding float16 patterns, as floats.
template <class D>
using HalfBits = hn::Rebind<std::uint16_t, D>;
#if HWY_TARGET <= HWY_AVX2  // better targets have lower bits; these convert in hardware
template <class D>
HWY_INLINE hn::Vec<D> widen_f16(D d, hn::Vec<HalfBits<D>> bits) {
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}
#else
// Highway's conversion without hardware makes finite numbers of infinity and NaN. Here: exponent and fraction in place, times 2^112
// (exact, subnormals included), and the exponent of all ones kept.
template <class D>
HWY_INLINE hn::Vec<D> widen_f16(D d, hn::Vec<HalfBits<D>> half) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::PromoteTo(di, half);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
  const auto finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto special = hn::Or(hn::BitCast(di, finite), hn::Set(di, 0x7f800000));
  const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), special, hn::BitCast(di, finite));
  return hn::BitCast(d, hn::Or(value, hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)))));
}
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const Float16* p) {
  return widen_f16(d, hn::LoadU(HalfBits<D>(), reinterpret_cast<const std::uint16_t*>(p)));
}
// FP8 goes through float16, whose hardware conversion knows subnormals: e5m2 is its upper byte; the e4m3 kinds have their exponent
// and fraction one bit lower than its, so that they come out smaller by the difference of the biases, a power of two.
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const Fp8E5m2* p) {
  const hn::Rebind<std::uint8_t, D> d8;
  return widen_f16(d, hn::ShiftLeft<8>(hn::PromoteTo(HalfBits<D>(), hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(p)))));
}
// Sign in bit 15, the other seven bits from bit 7 on.
template <class D>
HWY_INLINE hn::Vec<HalfBits<D>> e4m3_half(D, const void* p) {
  const HalfBits<D> d16;
  const hn::RebindToSigned<HalfBits<D>> di16;
  const hn::Rebind<std::int8_t, D> d8;
  const auto wide = hn::PromoteTo(di16, hn::LoadU(d8, static_cast<const std::int8_t*>(p)));
  return hn::And(hn::BitCast(d16, hn::ShiftLeft<7>(wide)), hn::Set(d16, static_cast<std::uint16_t>(0xbf80)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const Fp8E4m3* p) {
  const HalfBits<D> d16;
  const auto half = e4m3_half(d, p);
  const auto nan = hn::Eq(hn::And(half, hn::Set(d16, static_cast<std::uint16_t>(0x3f80))), hn::Set(d16, static_cast<std::uint16_t>(0x3f80)));
  return hn::Mul(widen_f16(d, hn::IfThenElse(nan, hn::Set(d16, static_cast<std::uint16_t>(0x7e00)), half)), hn::Set(d, 0x1p8f));
}
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const Fp8E4m3Fnuz* p) {
  const HalfBits<D> d16;
  const auto half = e4m3_half(d, p);
  const auto nan = hn::Eq(half, hn::Set(d16, static_cast<std::uint16_t>(0x8000)));
  return hn::Mul(widen_f16(d, hn::IfThenElse(nan, hn::Set(d16, static_cast<std::uint16_t>(0x7e00)), half)), hn::Set(d, 0x1p7f));
}

HWY_INLINE float scalar_f32(float x) { return x; }
HWY_INLINE float scalar_f32(BFloat16 x) { return to_float(x); }
HWY_INLINE float scalar_f32(Float16 x) { return to_float(x); }
HWY_INLINE float scalar_f32(Fp8E4m3 x) { return to_float(x); }
HWY_INLINE float scalar_f32(Fp8E4m3Fnuz x) { return to_float(x); }
HWY_INLINE float scalar_f32(Fp8E5m2 x) { return to_float(x); }

// Storage rounding: nearest even, through the exact scalar conversions.
HWY_INLINE void store_rounded(float x, float& out) { out = x; }
HWY_INLINE void store_rounded(float x, BFloat16& out) { out = to_bfloat16(x); }
HWY_INLINE void store_rounded(float x, Float16& out) { out = to_float16(x); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
