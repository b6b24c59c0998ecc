// linear on the CPU. One vector lane owns one output and its chain of fused multiply-adds runs over k in order, so a row's bits do not
// depend on how many rows, threads or lanes there are (docs/NUMERICS.md, "Linear").
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "ops/cpu_kernels.h"
#include "ops/load-inl.h"
#include "ops/params.h"
#include "ops/tensors.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

constexpr std::size_t kVectors = 4;          // vectors of outputs held at once
// 4 weights + MaxRows * 4 sums must fit the register file: 32 registers with AVX-512, 16 before.
constexpr int kMaxRows = HWY_TARGET <= HWY_AVX3 ? 6 : 2;

// Rows [0, R) of x times one slice of kVectors * lanes outputs of a panel.
template <std::size_t R, class D, class T>
HWY_INLINE void block(D d, const LinearSlice& s, const T* HWY_RESTRICT w) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[R][kVectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < s.k; ++k, w += ops::kPanel) {
    hn::Vec<D> wv[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) wv[v] = load_f32(d, w + v * lanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      const auto xv = hn::Set(d, s.x[static_cast<std::int64_t>(r) * s.k + k]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(xv, wv[v], sum[r][v]);
    }
  }
  const std::int64_t width = static_cast<std::int64_t>(lanes * kVectors);
  HWY_ALIGN float row[ops::kPanel];
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, row + v * lanes);
    const std::int64_t n = std::min(width, s.columns);
    float* HWY_RESTRICT y = s.y + static_cast<std::int64_t>(r) * s.ldy;
    for (std::int64_t j = 0; j < n; ++j) y[j] = s.bias == nullptr ? row[j] : row[j] + s.bias[j];
  }
}

template <class D, class T>
HWY_INLINE void rows_block(D d, int rows, const LinearSlice& s, const T* w) {
  if constexpr (kMaxRows >= 6) {
    if (rows == 6) return block<6>(d, s, w);
    if (rows == 5) return block<5>(d, s, w);
    if (rows == 4) return block<4>(d, s, w);
    if (rows == 3) return block<3>(d, s, w);
  }
  if (rows == 2) return block<2>(d, s, w);
  block<1>(d, s, w);
}

template <class T>
HWY_INLINE void linear_units(const ops::LinearParams& p, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const std::int64_t panels = (p.n + ops::kPanel - 1) / ops::kPanel;
  const std::int64_t width = static_cast<std::int64_t>(hn::Lanes(d) * kVectors);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t panel = unit % panels, row_begin = unit / panels * ops::kLinearRows, row_end = std::min(p.m, row_begin + ops::kLinearRows);
    const T* w = static_cast<const T*>(p.w) + panel * p.k * ops::kPanel;
    for (std::int64_t m = row_begin; m < row_end; m += kMaxRows) {
      const int rows = static_cast<int>(std::min<std::int64_t>(kMaxRows, row_end - m));
      for (std::int64_t c = 0; c < ops::kPanel; c += width) {
        const std::int64_t column = panel * ops::kPanel + c;
        if (column >= p.n) break;
        rows_block(d, rows, LinearSlice{p.x + m * p.k, p.y + m * p.ldy + column, p.bias == nullptr ? nullptr : p.bias + column, p.k, p.ldy, p.n - column}, w + c);
      }
    }
  }
}

void linear_f32(const void* p, std::int64_t b, std::int64_t e) { linear_units<float>(*static_cast<const ops::LinearParams*>(p), b, e); }
void linear_f16(const void* p, std::int64_t b, std::int64_t e) { linear_units<Float16>(*static_cast<const ops::LinearParams*>(p), b, e); }
void linear_bf16(const void* p, std::int64_t b, std::int64_t e) { linear_units<BFloat16>(*static_cast<const ops::LinearParams*>(p), b, e); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::ops {
HWY_EXPORT(linear_f32);
HWY_EXPORT(linear_f16);
HWY_EXPORT(linear_bf16);
void cpu_linear_f32(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(linear_f32)(p, b, e); }
void cpu_linear_f16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(linear_f16)(p, b, e); }
void cpu_linear_bf16(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(linear_bf16)(p, b, e); }
}  // namespace quire::ops
#endif
