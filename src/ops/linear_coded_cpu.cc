// linear of coded weights (ops/coded.h) and int8 inputs on the CPU. One lane owns one output; four codes and four inputs at a time are multiplied
// and summed as integers, exactly, and what a group gives is scaled and added in one fixed order (docs/NUMERICS.md, "GGUF weights"): the same bits
// for any batch, number of threads and instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_coded_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ops/coded.h"
#include "ops/cpu_kernels.h"
#include "ops/load-inl.h"
#include "ops/params.h"

HWY_BEFORE_NAMESPACE();
namespace quire::HWY_NAMESPACE {

constexpr std::size_t kCodedVectors = 4;  // vectors of outputs held at once
// Codes of these vectors and the sums of so many rows must fit the register file: 32 registers with AVX-512, 16 before.
constexpr int kCodedRows = HWY_TARGET <= HWY_AVX3 ? 6 : 2;

// How four products are summed up.
enum class Dots : std::uint8_t {
  kOneInstruction,  // AVX-512 VNNI
  kNarrow,          // codes below 128: pairs of products fit 16 bits
  kWide,            // codes to 255
};

using CodedFloats = hn::ScalableTag<float>;
using CodedInts = hn::RebindToSigned<CodedFloats>;
using IntVec = hn::Vec<CodedInts>;

// Better targets have lower bits; SSE2 and what has no vectors lack products of bytes.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE IntVec byte_pairs(IntVec w, IntVec x) { return IntVec{_mm512_maddubs_epi16(w.raw, x.raw)}; }
HWY_INLINE IntVec short_pairs(IntVec a, IntVec b) { return IntVec{_mm512_madd_epi16(a.raw, b.raw)}; }
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE IntVec byte_pairs(IntVec w, IntVec x) { return IntVec{_mm256_maddubs_epi16(w.raw, x.raw)}; }
HWY_INLINE IntVec short_pairs(IntVec a, IntVec b) { return IntVec{_mm256_madd_epi16(a.raw, b.raw)}; }
#else
HWY_INLINE IntVec byte_pairs(IntVec w, IntVec x) { return IntVec{_mm_maddubs_epi16(w.raw, x.raw)}; }
HWY_INLINE IntVec short_pairs(IntVec a, IntVec b) { return IntVec{_mm_madd_epi16(a.raw, b.raw)}; }
#endif
// sum[lane] += the four products of unsigned bytes of w and signed ones of x.
template <Dots kDots>
HWY_INLINE IntVec add_dots(IntVec sum, IntVec w, IntVec x) {
  const CodedInts di;
  if constexpr (kDots == Dots::kOneInstruction) {
    // By its name: the intrinsic wants a target of its own, which no instruction set of Highway's stops short of.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
    return sum;
  } else if constexpr (kDots == Dots::kNarrow) {
    return hn::Add(sum, short_pairs(byte_pairs(w, x), hn::Set(di, 0x00010001)));
  } else {
    const hn::Repartition<std::int16_t, CodedInts> d16;
    const hn::Repartition<std::uint16_t, CodedInts> du16;
    const auto even = hn::And(w, hn::Set(di, 0x00ff00ff)), odd = hn::BitCast(di, hn::ShiftRight<8>(hn::BitCast(du16, w)));
    const auto x16 = hn::BitCast(d16, x);
    const auto x_even = hn::BitCast(di, hn::ShiftRight<8>(hn::ShiftLeft<8>(x16))), x_odd = hn::BitCast(di, hn::ShiftRight<8>(x16));
    return hn::Add(sum, hn::Add(short_pairs(even, x_even), short_pairs(odd, x_odd)));
  }
}
#else
template <Dots kDots>
HWY_INLINE IntVec add_dots(IntVec sum, IntVec w, IntVec x) {
  const CodedInts di;
  const auto byte = [&](IntVec v, auto shift) { return hn::And(hn::ShiftRight<decltype(shift)::value>(v), hn::Set(di, 255)); };
  const auto number = [&](IntVec v, auto shift) { return hn::ShiftRight<24>(hn::ShiftLeft<24 - decltype(shift)::value>(v)); };
  const auto add = [&](auto shift) { sum = hn::Add(sum, hn::Mul(byte(w, shift), number(x, shift))); };
  add(std::integral_constant<int, 0>());
  add(std::integral_constant<int, 8>());
  add(std::integral_constant<int, 16>());
  add(std::integral_constant<int, 24>());
  return sum;
}
#endif

// Rows of the input and one panel of a part.
struct CodedSlice {
  const std::int8_t* x;  // of the first row; rows are k apart
  const float* floats;   // scales and sums of the first row; rows are row_floats apart
  const std::uint8_t* panel;
  float* totals;         // [rows, kPanel]
  std::int64_t k, row_floats;
};

// A group of the panel.
struct CodedPlace {
  const std::uint8_t *scales, *factors, *codes;
  std::int64_t index;  // among the groups of the row
};

HWY_INLINE IntVec four_inputs(const std::int8_t* x) {
  std::int32_t four;
  std::memcpy(&four, x, sizeof four);
  return hn::Set(CodedInts(), four);
}

// Scale (kind 0) or offset (kind 1) of the vector of outputs from `column` on.
HWY_INLINE hn::Vec<CodedFloats> group_floats(const ops::CodedLayout& layout, const CodedPlace& at, std::int64_t kind, std::int64_t column) {
  const CodedFloats d;
  const auto half = load_f32(d, reinterpret_cast<const Float16*>(at.scales) + kind * ops::kPanel + column);
  if (layout.groups == 1) return half;
  const hn::Rebind<std::int8_t, CodedFloats> d8;
  const auto factor = hn::PromoteTo(CodedInts(), hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(at.factors) + kind * ops::kPanel + column));
  return hn::Mul(half, hn::ConvertTo(d, factor));
}

// The sum of a row's stored inputs in a group.
HWY_INLINE float input_sum(const ops::CodedLayout& layout, const CodedSlice& s, std::int64_t row, std::int64_t index) {
  const float* sums = s.floats + row * s.row_floats + s.k / ops::kInt8Group + index * (layout.group / ops::kInt8Sum);
  return layout.group == ops::kInt8Sum ? sums[0] : sums[0] + sums[1];
}

// sums[r][v] += four codes of each output times four inputs of each row.
template <Dots kDots, std::size_t R>
HWY_INLINE void add_four(const CodedSlice& s, const IntVec (&codes)[kCodedVectors], const std::int8_t* x, IntVec (&sums)[R][kCodedVectors]) {
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
    const IntVec xv = four_inputs(x + static_cast<std::int64_t>(r) * s.k);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kCodedVectors; ++v) sums[r][v] = add_dots<kDots>(sums[r][v], codes[v], xv);
  }
}

// sums[r][v] = sum over the group of code * x, for R rows and the outputs from `column` on.
template <int kBits, Dots kDots, std::size_t R>
HWY_INLINE void group_sums(const ops::CodedLayout& layout, const CodedSlice& s, const CodedPlace& at, std::int64_t column, IntVec (&sums)[R][kCodedVectors]) {
  const CodedInts di;
  const std::size_t lanes = hn::Lanes(di);
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
    // The codes are stored less their least one.
    const IntVec start = hn::Set(di, layout.least_code == 0 ? 0 : layout.least_code * static_cast<std::int32_t>(input_sum(layout, s, static_cast<std::int64_t>(r), at.index)));
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kCodedVectors; ++v) sums[r][v] = start;
  }
  const std::int8_t *x = s.x + at.index * layout.group, *end = x + layout.group;
  const std::uint8_t* w = at.codes + column * 4;
  for (; x < end; w += 4 * ops::kPanel) {
    const auto* words = reinterpret_cast<const std::int32_t*>(w);
    IntVec codes[kCodedVectors];
    if constexpr (kBits == 8) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kCodedVectors; ++v) codes[v] = hn::LoadU(di, words + v * lanes);
      add_four<kDots>(s, codes, x, sums);
      x += 4;
    } else {
      const auto low = hn::Set(di, 0x0f0f0f0f);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kCodedVectors; ++v) codes[v] = hn::And(hn::LoadU(di, words + v * lanes), low);
      add_four<kDots>(s, codes, x, sums);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kCodedVectors; ++v) codes[v] = hn::And(hn::ShiftRight<4>(hn::LoadU(di, words + v * lanes)), low);
      add_four<kDots>(s, codes, x + 4, sums);
      x += 8;
    }
  }
}

// totals += sums * scale of x * scale of w, then += sum of x * scale of x * offset of w.
template <std::size_t R>
HWY_INLINE void add_scaled(const ops::CodedLayout& layout, const CodedSlice& s, const CodedPlace& at, std::int64_t column, const IntVec (&sums)[R][kCodedVectors]) {
  const CodedFloats d;
  const std::size_t lanes = hn::Lanes(d);
  const float* x_scales = s.floats + at.index * layout.group / ops::kInt8Group;
  float x_sums[R];
  if (layout.offsets)
    for (std::size_t r = 0; r < R; ++r) x_sums[r] = input_sum(layout, s, static_cast<std::int64_t>(r), at.index) * x_scales[static_cast<std::int64_t>(r) * s.row_floats];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kCodedVectors; ++v) {
    const std::int64_t first = column + static_cast<std::int64_t>(v * lanes);
    const auto scale = group_floats(layout, at, 0, first);
    const auto offset = layout.offsets ? group_floats(layout, at, 1, first) : hn::Zero(d);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
      float* total = s.totals + static_cast<std::int64_t>(r) * ops::kPanel + first;
      auto sum = hn::Add(hn::Load(d, total), hn::Mul(hn::Mul(hn::ConvertTo(d, sums[r][v]), hn::Set(d, x_scales[static_cast<std::int64_t>(r) * s.row_floats])), scale));
      if (layout.offsets) sum = hn::Add(sum, hn::Mul(hn::Set(d, x_sums[r]), offset));
      hn::Store(sum, d, total);
    }
  }
}

template <int kBits, Dots kDots, std::size_t R>
HWY_NOINLINE void coded_rows(const ops::CodedLayout& layout, const CodedSlice& s) {
  const CodedInts di;
  std::memset(s.totals, 0, R * ops::kPanel * sizeof(float));
  const std::uint8_t* at = s.panel;
  for (std::int64_t index = 0; index < s.k / layout.group;) {
    const std::uint8_t* scales = at;
    at += layout.scale_bytes();
    for (std::int64_t g = 0; g < layout.groups; ++g, ++index) {
      const CodedPlace place{scales, at, at + layout.factor_bytes(), index};
      at += layout.factor_bytes() + layout.code_bytes();
      for (std::int64_t column = 0; column < ops::kPanel; column += static_cast<std::int64_t>(kCodedVectors * hn::Lanes(di))) {
        IntVec sums[R][kCodedVectors];
        group_sums<kBits, kDots>(layout, s, place, column, sums);
        add_scaled(layout, s, place, column, sums);
      }
    }
  }
}

template <int kBits, Dots kDots>
HWY_INLINE void coded_block(std::int64_t rows, const ops::CodedLayout& layout, const CodedSlice& s) {
  if constexpr (kCodedRows >= 6) {
    if (rows == 6) return coded_rows<kBits, kDots, 6>(layout, s);
    if (rows == 5) return coded_rows<kBits, kDots, 5>(layout, s);
    if (rows == 4) return coded_rows<kBits, kDots, 4>(layout, s);
    if (rows == 3) return coded_rows<kBits, kDots, 3>(layout, s);
  }
  if (rows == 2) return coded_rows<kBits, kDots, 2>(layout, s);
  coded_rows<kBits, kDots, 1>(layout, s);
}

HWY_INLINE void coded_block_any(std::int64_t rows, const ops::CodedLayout& layout, const CodedSlice& s) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (ops::cpu_has_byte_dots()) return layout.bits == 4 ? coded_block<4, Dots::kOneInstruction>(rows, layout, s) : coded_block<8, Dots::kOneInstruction>(rows, layout, s);
#endif
  if (layout.bits == 4) return coded_block<4, Dots::kNarrow>(rows, layout, s);
  if (layout.most_code - layout.least_code < 128) return coded_block<8, Dots::kNarrow>(rows, layout, s);
  coded_block<8, Dots::kWide>(rows, layout, s);
}

// Panel `panel` of part `part`, for rows [row, row + rows).
HWY_INLINE void coded_unit(const ops::LinearCodedParams& p, std::size_t part, std::int64_t panel, std::int64_t row, std::int64_t rows) {
  HWY_ALIGN float totals[kCodedRows * ops::kPanel];
  const std::int64_t end = part + 1 < static_cast<std::size_t>(p.num_parts) ? p.first_rows[part + 1] : p.n;
  const std::int64_t first = p.first_rows[part] + panel * ops::kPanel, columns = std::min(ops::kPanel, end - first), row_floats = ops::kInt8Input.row_floats(p.k);
  const ops::CodedLayout& layout = ops::coded_layout(p.parts[part].format);
  const auto* packed = static_cast<const std::uint8_t*>(p.parts[part].packed) + panel * layout.panel_bytes(p.k);
  // Blocks of rows as even as they can be.
  const std::int64_t blocks = (rows + kCodedRows - 1) / kCodedRows;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t from = row + rows * b / blocks, count = row + rows * (b + 1) / blocks - from;
    coded_block_any(count, layout, CodedSlice{p.x + from * p.k, p.x_floats + from * row_floats, packed, totals, p.k, row_floats});
    for (std::int64_t r = 0; r < count; ++r) {
      float* HWY_RESTRICT y = p.y + (from + r) * p.n + first;
      for (std::int64_t c = 0; c < columns; ++c) y[c] = p.bias == nullptr ? totals[r * ops::kPanel + c] : totals[r * ops::kPanel + c] + p.bias[first + c];
    }
  }
}

void linear_coded(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::LinearCodedParams*>(params);
  std::int64_t panels[ops::kMaxParts] = {}, all = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.num_parts); ++i) {
    const std::int64_t part_end = i + 1 < static_cast<std::size_t>(p.num_parts) ? p.first_rows[i + 1] : p.n;
    panels[i] = (part_end - p.first_rows[i] + ops::kPanel - 1) / ops::kPanel;
    all += panels[i];
  }
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t panel = unit % all;
    std::size_t part = 0;
    while (panel >= panels[part]) panel -= panels[part++];
    const std::int64_t row = unit / all * ops::kLinearRows;
    coded_unit(p, part, panel, row, std::min(ops::kLinearRows, p.m - row));
  }
}

}  // namespace quire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::ops {
HWY_EXPORT(linear_coded);
void cpu_linear_coded(const void* p, std::int64_t b, std::int64_t e) { HWY_DYNAMIC_DISPATCH(linear_coded)(p, b, e); }
}  // namespace quire::ops
#endif
