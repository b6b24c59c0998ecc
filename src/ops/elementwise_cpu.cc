// Norms, the gated activation and quantising on the CPU: one row a unit, sums in one fixed order per row.
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

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

template <bool kAdd>
HWY_INLINE void rms_norm_rows(const ops::RmsNormParams& p, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = p.n - p.n % lanes;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = p.x + row * p.n;
    if constexpr (kAdd) {
      float* HWY_RESTRICT r = p.residual + row * p.n;
      std::int64_t i = 0;
      for (; i < full; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, r + i), hn::LoadU(d, x + i)), d, r + i);
      for (; i < p.n; ++i) r[i] += x[i];
      x = r;
    }
    auto squares = hn::Zero(d);
    std::int64_t i = 0;
    for (; i < full; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      squares = hn::MulAdd(v, v, squares);
    }
    float sum = hn::GetLane(hn::SumOfLanes(d, squares));
    for (; i < p.n; ++i) sum += x[i] * x[i];
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(p.n) + p.eps);
    float* y = p.y + row * p.n;
    for (i = 0; i < full; i += lanes) hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)), hn::LoadU(d, p.weight + i)), d, y + i);
    for (; i < p.n; ++i) y[i] = x[i] * scale * p.weight[i];
    quantise_row(p.out, row, y, p.n);
  }
}

void rms_norm(const void* p, std::int64_t b, std::int64_t e) { rms_norm_rows<false>(*static_cast<const ops::RmsNormParams*>(p), b, e); }
void add_rms_norm(const void* p, std::int64_t b, std::int64_t e) { rms_norm_rows<true>(*static_cast<const ops::RmsNormParams*>(p), b, e); }

// silu(g) * u, with silu(g) = g / (1 + exp(-g)).
template <class D>
HWY_INLINE hn::Vec<D> gated(D d, hn::Vec<D> g, hn::Vec<D> u) {
  return hn::Mul(hn::Div(g, hn::Add(hn::Set(d, 1.0f), exp_f32(d, hn::Neg(g)))), u);
}

void silu_mul(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::SiluMulParams*>(params);
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t full = p.n - p.n % lanes;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* gate = p.gate_up + row * 2 * p.n;
    const float* up = gate + p.n;
    float* y = p.y + row * p.n;
    for (std::int64_t i = 0; i < full; i += lanes) hn::StoreU(gated(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i)), d, y + i);
    if (full != p.n) {
      // The tail goes through whole vectors of its own: masked loads are aligned and read past the end before AVX2.
      HWY_ALIGN float g[hn::MaxLanes(d)] = {}, u[hn::MaxLanes(d)] = {};
      std::copy(gate + full, up, g);
      std::copy(up + full, up + p.n, u);
      hn::Store(gated(d, hn::Load(d, g), hn::Load(d, u)), d, g);
      std::copy(g, g + (p.n - full), y + full);
    }
    quantise_row(p.out, row, y, p.n);
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
HWY_EXPORT(quantise);
void cpu_rms_norm(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(rms_norm)(p, b, e); }
void cpu_add_rms_norm(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(add_rms_norm)(p, b, e); }
void cpu_silu_mul(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(silu_mul)(p, b, e); }
void cpu_quantise(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(quantise)(p, b, e); }
}  // namespace quire::ops
#endif
