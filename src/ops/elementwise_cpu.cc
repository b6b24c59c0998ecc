// Norms, gated activations, the soft cap and quantising on the CPU: one row a unit, sums in one fixed order per row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "ops/cpu_kernels.h"
#include "ops/exp-inl.h"
#include "ops/load-inl.h"
#include "ops/params.h"
#include "ops/quantise-inl.h"
#include "ops/tanh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

// 1 / sqrt(mean(x^2) + eps) of a row.
HWY_INLINE float inverse_root(const float* x, std::int64_t n, float eps) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = n - n % lanes;
  auto squares = hn::Zero(d);
  std::int64_t i = 0;
  for (; i < full; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    squares = hn::MulAdd(v, v, squares);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < n; ++i) sum += x[i] * x[i];
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
}

// residual += x, or with a branch norm x * scale * weight, one product after the other.
HWY_INLINE void add_branch(const ops::RmsNormParams& p, const float* x, float* HWY_RESTRICT r) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = p.n - p.n % lanes;
  std::int64_t i = 0;
  if (p.branch == nullptr) {
    for (; i < full; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, r + i), hn::LoadU(d, x + i)), d, r + i);
    for (; i < p.n; ++i) r[i] += x[i];
    return;
  }
  const float scale = inverse_root(x, p.n, p.eps);
  const auto scales = hn::Set(d, scale);
  for (; i < full; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, r + i), hn::Mul(hn::Mul(hn::LoadU(d, x + i), scales), hn::LoadU(d, p.branch + i))), d, r + i);
  for (; i < p.n; ++i) r[i] += x[i] * scale * p.branch[i];
}

template <bool kAdd>
HWY_INLINE void rms_norm_rows(const ops::RmsNormParams& p, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = p.n - p.n % lanes;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = p.x + row * p.n;
    if constexpr (kAdd) {
      float* r = p.residual + row * p.n;
      add_branch(p, x, r);
      x = r;
    }
    const float scale = inverse_root(x, p.n, p.eps);
    float* y = p.y + row * p.n;
    std::int64_t i = 0;
    for (; i < full; i += lanes) hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)), hn::LoadU(d, p.weight + i)), d, y + i);
    for (; i < p.n; ++i) y[i] = x[i] * scale * p.weight[i];
    quantise_row(p.out, row, y, p.n);
  }
}

void rms_norm(const void* p, std::int64_t b, std::int64_t e) { rms_norm_rows<false>(*static_cast<const ops::RmsNormParams*>(p), b, e); }
void add_rms_norm(const void* p, std::int64_t b, std::int64_t e) { rms_norm_rows<true>(*static_cast<const ops::RmsNormParams*>(p), b, e); }

// Both activations are g times the logistic function of something: silu of g itself, gelu_tanh of 2 sqrt(2 / pi) (g + 0.044715 g^3), since
// (1 + tanh(u)) / 2 is the logistic function of 2 u, which cancels nothing.
struct Silu {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> g) const { return g; }
};
struct GeluTanh {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> g) const {
    return hn::Mul(g, hn::MulAdd(hn::Mul(g, g), hn::Set(d, 0.0713548162726f), hn::Set(d, 1.5957691216057f)));
  }
};

template <class Inner, class D>
HWY_INLINE hn::Vec<D> gated(D d, hn::Vec<D> g, hn::Vec<D> u) {
  return hn::Mul(hn::Div(g, hn::Add(hn::Set(d, 1.0f), exp_f32(d, hn::Neg(Inner()(d, g))))), u);
}

template <class Inner>
HWY_INLINE void gated_mul_rows(const ops::GatedMulParams& p, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = p.n - p.n % lanes;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* gate = p.gate_up + row * 2 * p.n;
    const float* up = gate + p.n;
    float* y = p.y + row * p.n;
    for (std::int64_t i = 0; i < full; i += lanes) hn::StoreU(gated<Inner>(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i)), d, y + i);
    if (full != p.n) {
      // The tail goes through whole vectors of its own: masked loads are aligned and read past the end before AVX2.
      HWY_ALIGN float g[hn::MaxLanes(d)] = {}, u[hn::MaxLanes(d)] = {};
      std::copy(gate + full, up, g);
      std::copy(up + full, up + p.n, u);
      hn::Store(gated<Inner>(d, hn::Load(d, g), hn::Load(d, u)), d, g);
      std::copy(g, g + (p.n - full), y + full);
    }
    quantise_row(p.out, row, y, p.n);
  }
}

void silu_mul(const void* p, std::int64_t b, std::int64_t e) { gated_mul_rows<Silu>(*static_cast<const ops::GatedMulParams*>(p), b, e); }
void gelu_tanh_mul(const void* p, std::int64_t b, std::int64_t e) { gated_mul_rows<GeluTanh>(*static_cast<const ops::GatedMulParams*>(p), b, e); }

void soft_cap(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::SoftCapParams*>(params);
  using Floats = hn::ScalableTag<float>;
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = p.n - p.n % lanes;
  const auto cap = hn::Set(d, p.cap);
  const auto capped = [&](hn::Vec<Floats> x) HWY_ATTR { return hn::Mul(cap, tanh_f32(d, hn::Div(x, cap))); };
  for (std::int64_t row = begin; row < end; ++row) {
    float* x = p.x + row * p.n;
    for (std::int64_t i = 0; i < full; i += lanes) hn::StoreU(capped(hn::LoadU(d, x + i)), d, x + i);
    if (full == p.n) continue;
    HWY_ALIGN float tail[hn::MaxLanes(d)] = {};
    std::copy(x + full, x + p.n, tail);
    hn::Store(capped(hn::Load(d, tail)), d, tail);
    std::copy(tail, tail + (p.n - full), x + full);
  }
}

void quantise(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::QuantiseParams*>(params);
  for (std::int64_t row = begin; row < end; ++row) quantise_row(p.out, row, p.x + row * p.n, p.n);
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::ops {
HWY_EXPORT(rms_norm);
HWY_EXPORT(add_rms_norm);
HWY_EXPORT(silu_mul);
HWY_EXPORT(gelu_tanh_mul);
HWY_EXPORT(soft_cap);
HWY_EXPORT(quantise);
void cpu_rms_norm(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(rms_norm)(p, b, e); }
void cpu_add_rms_norm(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(add_rms_norm)(p, b, e); }
void cpu_silu_mul(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(silu_mul)(p, b, e); }
void cpu_gelu_tanh_mul(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(gelu_tanh_mul)(p, b, e); }
void cpu_soft_cap(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(soft_cap)(p, b, e); }
void cpu_quantise(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(quantise)(p, b, e); }
}  // namespace quire::ops
#endif
