// linear of FP8 weights on the CPU. A unit is a panel of outputs for up to ops::kLinearRows rows. Weights become floats kChunk inputs at a time, once
// for all rows of the unit, and each output goes on with its one chain over k (docs/NUMERICS.md, "FP8 weights").
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_fp8_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ops/cpu_kernels.h"
#include "ops/load-inl.h"
#include "ops/params.h"
#include "ops/tensors.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

constexpr std::size_t kFp8Vectors = 4;    // vectors of outputs held at once
constexpr std::int64_t kChunk = 64;       // inputs whose weights are floats at a time: 16 KiB. Divides ops::kScaleGroup
static_assert(ops::kScaleGroup % kChunk == 0);
// As linear_cpu.cc: weights and sums in registers.
constexpr int kFp8Rows = HWY_TARGET <= HWY_AVX3 ? 6 : 2;

// The power of two by which widened weights are too small. It comes back with the scales, once for a chain: exact, unless products with float32
// inputs are near float32's smallest.
template <class T>
constexpr float kFp8Shift = 0x1p8f;
template <>
constexpr float kFp8Shift<Fp8E4m3Fnuz> = 0x1p7f;

// Weights over kFp8Shift, of finite patterns; floats have been through it.
template <class D>
HWY_INLINE hn::Vec<D> shifted_weights(D d, const float* w) { return hn::Load(d, w); }
template <class D, class T>
HWY_INLINE hn::Vec<D> shifted_weights(D d, const T* w) { return widen_f16(d, e4m3_half(d, w)); }

template <class T>
HWY_INLINE void widen_weights(const T* HWY_RESTRICT w, std::int64_t count, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  for (std::int64_t i = 0; i < count * ops::kPanel; i += static_cast<std::int64_t>(hn::Lanes(d))) hn::Store(shifted_weights(d, w + i), d, out + i);
}

// Some inputs of rows and of a panel: the products that are summed up.
template <class W>
struct Fp8Products {
  const float* x;  // of the first row; rows are ldx apart
  std::int64_t ldx;
  const W* w;      // [count, kPanel]: floats, or FP8 that is widened on the way
  std::int64_t count;
  float* sums;     // [rows, kPanel]
};

// sums[r][v] += x[r][k] * w[k][v], k rising. One slice of kFp8Vectors vectors of outputs, from `column` on.
template <std::size_t R, class D, class W>
HWY_INLINE void add_products(D d, const Fp8Products<W>& p, std::int64_t column) {
  // Copies, which no store through `sums` changes.
  const float* HWY_RESTRICT x = p.x;
  const W* HWY_RESTRICT w = p.w + column;
  float* HWY_RESTRICT sums = p.sums + column;
  const std::int64_t ldx = p.ldx, count = p.count;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[R][kFp8Vectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kFp8Vectors; ++v) sum[r][v] = hn::Load(d, sums + r * ops::kPanel + v * lanes);
  }
  for (std::int64_t k = 0; k < count; ++k, w += ops::kPanel) {
    hn::Vec<D> wv[kFp8Vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kFp8Vectors; ++v) wv[v] = shifted_weights(d, w + v * lanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      const auto xv = hn::Set(d, x[static_cast<std::int64_t>(r) * ldx + k]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kFp8Vectors; ++v) sum[r][v] = hn::MulAdd(xv, wv[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kFp8Vectors; ++v) hn::Store(sum[r][v], d, sums + r * ops::kPanel + v * lanes);
  }
}

// All outputs of a panel, for 1 to kFp8Rows rows.
template <class W>
HWY_NOINLINE void add_panel(int rows, const Fp8Products<W>& p) {
  const hn::ScalableTag<float> d;
  for (std::int64_t c = 0; c < ops::kPanel; c += static_cast<std::int64_t>(hn::Lanes(d) * kFp8Vectors)) {
    if constexpr (kFp8Rows >= 6) {
      if (rows == 6) add_products<6>(d, p, c);
      if (rows == 5) add_products<5>(d, p, c);
      if (rows == 4) add_products<4>(d, p, c);
      if (rows == 3) add_products<3>(d, p, c);
    }
    if (rows == 2) add_products<2>(d, p, c);
    if (rows == 1) add_products<1>(d, p, c);
  }
}

// A part's share of a panel, for some rows.
struct Fp8Unit {
  std::int64_t panel, row, rows;
  int part;
  std::int64_t begin, end;  // its outputs within the panel
};

// Scale of the input's row `row` in group `g`.
HWY_INLINE float input_scale(const ops::LinearFp8Params& p, const Fp8Unit& u, std::int64_t row, std::int64_t g) {
  if (p.x_scales != nullptr) return p.x_scales[(u.row + row) * p.x_groups + (p.x_groups == 1 ? 0 : g)];
  return p.input.quantised() ? p.input.scales[static_cast<std::size_t>(p.input.copy_of(u.part))] : 1.0f;
}

HWY_INLINE const float* weight_scales(const ops::LinearFp8Params& p, const Fp8Unit& u, std::int64_t g) {
  const std::int64_t panels = (p.n + ops::kPanel - 1) / ops::kPanel;
  return p.w_scales + ((p.w_groups == 1 ? 0 : g) * panels + u.panel) * ops::kPanel;
}

// The scales of a group are far from those before; the group's products take longer than they do to come.
HWY_INLINE void prefetch_scales(const ops::LinearFp8Params& p, const Fp8Unit& u, std::int64_t g) {
  const float* scales = weight_scales(p, u, g);
  for (std::int64_t i = 0; i < ops::kPanel; i += 16) __builtin_prefetch(scales + i);
}

// total += sum * scale of x * scale of w, each rounded.
template <class T>
HWY_INLINE void add_group(const ops::LinearFp8Params& p, const Fp8Unit& u, std::int64_t g, const float* sums, float* totals) {
  const hn::ScalableTag<float> d;
  const float* w_scales = weight_scales(p, u, g);
  for (std::int64_t r = 0; r < u.rows; ++r) {
    const auto x_scale = hn::Set(d, input_scale(p, u, r, g) * kFp8Shift<T>);
    for (std::int64_t i = r * ops::kPanel, c = 0; c < ops::kPanel; c += static_cast<std::int64_t>(hn::Lanes(d)), i += static_cast<std::int64_t>(hn::Lanes(d)))
      hn::Store(hn::Add(hn::Load(d, totals + i), hn::Mul(hn::Mul(hn::Load(d, sums + i), x_scale), hn::LoadU(d, w_scales + c))), d, totals + i);
  }
}

// Inputs [k, k + count) with their weights of a panel, as floats or as they are stored.
template <class W>
struct Fp8Chunk {
  std::int64_t k, count;
  const W* w;
};

// A chunk's products with the unit's rows onto the sums.
template <class T, class W>
HWY_INLINE void add_chunk(const ops::LinearFp8Params& p, const Fp8Unit& u, const Fp8Chunk<W>& chunk, float* sums) {
  const std::int64_t count = chunk.count;
  const hn::ScalableTag<float> d;
  HWY_ALIGN float x_chunk[kFp8Rows * kChunk];
  for (std::int64_t r = 0; r < u.rows; r += kFp8Rows) {
    const std::int64_t rows = std::min<std::int64_t>(kFp8Rows, u.rows - r), first = (u.row + r) * p.k + chunk.k;
    if (!p.input.quantised()) {
      add_panel(static_cast<int>(rows), Fp8Products<W>{.x = static_cast<const float*>(p.x) + first, .ldx = p.k, .w = chunk.w, .count = count, .sums = sums + r * ops::kPanel});
      continue;
    }
    const T* x = static_cast<const T*>(p.x) + p.input.copy_of(u.part) * p.copy_stride + first;
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d)), full = count - count % lanes;
    for (std::int64_t i = 0; i < rows; ++i, x += p.k) {
      float* out = x_chunk + i * kChunk;
      for (std::int64_t j = 0; j < full; j += lanes) hn::Store(load_f32(d, x + j), d, out + j);
      for (std::int64_t j = full; j < count; ++j) out[j] = scalar_f32(x[j]);
    }
    add_panel(static_cast<int>(rows), Fp8Products<W>{.x = x_chunk, .ldx = kChunk, .w = chunk.w, .count = count, .sums = sums + r * ops::kPanel});
  }
}

template <class T>
HWY_INLINE void fp8_unit(const ops::LinearFp8Params& p, const Fp8Unit& u) {
  HWY_ALIGN float w_chunk[kChunk * ops::kPanel];
  HWY_ALIGN float sums[ops::kLinearRows * ops::kPanel];
  HWY_ALIGN float totals[ops::kLinearRows * ops::kPanel];
  const std::size_t bytes = static_cast<std::size_t>(u.rows * ops::kPanel) * sizeof(float);
  std::memset(totals, 0, bytes);
  const T* w = static_cast<const T*>(p.w) + u.panel * p.k * ops::kPanel;
  for (std::int64_t k = 0, g = 0; k < p.k; ++g) {
    std::memset(sums, 0, bytes);
    prefetch_scales(p, u, g);
    for (const std::int64_t end = std::min(p.k, k + p.group); k < end;) {
      const std::int64_t count = std::min(kChunk, end - k);
      const T* stored = w + k * ops::kPanel;
      if (u.rows <= kFp8Rows) {  // nothing to reuse: through registers
        add_chunk<T>(p, u, Fp8Chunk<T>{k, count, stored}, sums);
      } else {
        widen_weights(stored, count, w_chunk);
        add_chunk<T>(p, u, Fp8Chunk<float>{k, count, w_chunk}, sums);
      }
      k += count;
    }
    add_group<T>(p, u, g, sums, totals);
  }
  for (std::int64_t r = 0; r < u.rows; ++r)
    for (std::int64_t c = u.begin; c < u.end; ++c) {
      const std::int64_t output = u.panel * ops::kPanel + c;
      const float y = totals[r * ops::kPanel + c];
      p.y[(u.row + r) * p.n + output] = p.bias == nullptr ? y : y + p.bias[output];
    }
}

template <class T>
HWY_INLINE void linear_fp8_units(const ops::LinearFp8Params& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t panels = (p.n + ops::kPanel - 1) / ops::kPanel;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t panel = unit % panels, first = panel * ops::kPanel, row = unit / panels * ops::kLinearRows, rows = std::min(ops::kLinearRows, p.m - row);
    const std::int64_t columns = std::min(ops::kPanel, p.n - first);
    if (p.input.copies() == 1) {
      fp8_unit<T>(p, Fp8Unit{panel, row, rows, 0, 0, columns});
      continue;
    }
    // A panel on the border of two parts is computed with the input of each.
    for (int part = 0; part < p.num_parts; ++part) {
      const std::int64_t part_begin = p.first_rows[static_cast<std::size_t>(part)], part_end = part + 1 < p.num_parts ? p.first_rows[static_cast<std::size_t>(part + 1)] : p.n;
      const Fp8Unit u{panel, row, rows, part, std::max<std::int64_t>(0, part_begin - first), std::min(columns, part_end - first)};
      if (u.begin < u.end) fp8_unit<T>(p, u);
    }
  }
}

void linear_e4m3(const void* p, std::int64_t b, std::int64_t e) { linear_fp8_units<Fp8E4m3>(*static_cast<const ops::LinearFp8Params*>(p), b, e); }
void linear_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { linear_fp8_units<Fp8E4m3Fnuz>(*static_cast<const ops::LinearFp8Params*>(p), b, e); }

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::ops {
HWY_EXPORT(linear_e4m3);
HWY_EXPORT(linear_e4m3fnuz);
void cpu_linear_e4m3(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(linear_e4m3)(p, b, e); }
void cpu_linear_e4m3fnuz(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(linear_e4m3fnuz)(p, b, e); }
}  // namespace quire::ops
#endif
