// Activations and weights as operations see them: a value knows its own format, so that no model file ever names a kernel's dtype.
#pragma once
#include <array>
#include <cstdint>

#include "tensor/view.h"

namespace quire::ops {

enum class ActFormat : std::uint8_t { kF32, kFp8E4m3, kFp8E4m3Fnuz, kInt8 };

// int8 is stored in bytes like any other.
[[nodiscard]] constexpr DType storage_dtype(ActFormat f) {
  switch (f) {
    case ActFormat::kF32: return DType::kF32;
    case ActFormat::kFp8E4m3: return DType::kFp8E4m3;
    case ActFormat::kFp8E4m3Fnuz: return DType::kFp8E4m3Fnuz;
    case ActFormat::kInt8: return DType::kU8;
  }
  return DType::kF32;
}

// Where the scale of a quantised activation comes from.
enum class ActScaling : std::uint8_t {
  kNone,      // not quantised
  kStatic,    // known before serving, one for a whole tensor
  kPerToken,  // of each row: its largest magnitude over the format's largest
  kPerGroup,  // the same of each kScaleGroup columns of a row (int8: kInt8Group)
};

inline constexpr std::int64_t kScaleGroup = 128;  // columns that share a scale where groups do
inline constexpr std::int64_t kInt8Group = 32;    // the same of int8 activations, whose rows are whole groups
inline constexpr std::int64_t kInt8Sum = 16;      // columns whose stored numbers are summed up beside them
inline constexpr int kMaxParts = 3;               // matrices in one fused projection: q, k, v

// How a weight wants its input. Host values, trivially copyable: kernels get them with their parameters.
struct InputQuant {
  ActFormat format = ActFormat::kF32;  // kF32 exactly when scaling is kNone
  ActScaling scaling = ActScaling::kNone;
  int num_scales = 0;                      // kStatic: 1, which all parts share, or one for each part of the weight
  std::array<float, kMaxParts> scales{};   // kStatic: finite and above 0; x is stored as x / scale

  [[nodiscard]] constexpr bool quantised() const { return scaling != ActScaling::kNone; }
  // How many differently scaled copies of the input there are, and which of them a part of the weight reads.
  [[nodiscard]] constexpr int copies() const { return scaling == ActScaling::kStatic ? num_scales : 1; }
  [[nodiscard]] constexpr int copy_of(int part) const { return copies() == 1 ? 0 : part; }
  [[nodiscard]] constexpr std::int64_t group() const { return format == ActFormat::kInt8 ? kInt8Group : kScaleGroup; }
  // Scales that are computed with a row of `columns`.
  [[nodiscard]] constexpr std::int64_t row_scales(std::int64_t columns) const {
    return scaling == ActScaling::kPerToken ? 1 : scaling == ActScaling::kPerGroup ? (columns + group() - 1) / group() : 0;
  }
  // Floats beside a row: its scales; of int8 then the sum of each kInt8Sum stored numbers, exactly.
  [[nodiscard]] constexpr std::int64_t row_floats(std::int64_t columns) const { return row_scales(columns) + (format == ActFormat::kInt8 ? columns / kInt8Sum : 0); }
  friend bool operator==(const InputQuant&, const InputQuant&) = default;
};

// [rows, columns] activations. Quantised ones carry their scales: element = stored number * scale.
struct ActTensor {
  TensorView values;  // of storage_dtype(quant.format); of several copies the first
  InputQuant quant;
  float* scales = nullptr;       // [rows, quant.row_floats(columns)]; nullptr: none are computed
  std::int64_t copy_stride = 0;  // elements from one copy to the next; 0: there is one
  [[nodiscard]] std::int64_t rows() const { return values.dim(0); }
  [[nodiscard]] std::int64_t columns() const { return values.dim(1); }
  [[nodiscard]] ActTensor first_rows(std::int64_t n) const { return ActTensor{values.rows(n), quant, scales, copy_stride}; }
  [[nodiscard]] float* f32() const { return values.as<float>(); }
};

// The last eight are GGUF's types, "coded": small integers with a scale and perhaps an offset for each group of inputs (ops/coded.h).
enum class WeightFormat : std::uint8_t { kF32, kF16, kBF16, kFp8E4m3, kFp8E4m3Fnuz, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4K, kQ5K, kQ6K };

[[nodiscard]] constexpr bool is_coded(WeightFormat f) { return f >= WeightFormat::kQ4_0; }
// Coded weights are bytes.
[[nodiscard]] constexpr DType storage_dtype(WeightFormat f) {
  switch (f) {
    case WeightFormat::kF32: return DType::kF32;
    case WeightFormat::kF16: return DType::kF16;
    case WeightFormat::kBF16: return DType::kBF16;
    case WeightFormat::kFp8E4m3: return DType::kFp8E4m3;
    case WeightFormat::kFp8E4m3Fnuz: return DType::kFp8E4m3Fnuz;
    default: return DType::kU8;
  }
}
[[nodiscard]] constexpr bool is_fp8(WeightFormat f) { return is_fp8(storage_dtype(f)); }
// What every coded weight wants of its input.
inline constexpr InputQuant kInt8Input{ActFormat::kInt8, ActScaling::kPerGroup, 0, {}};

inline constexpr std::int64_t kPanel = 64;  // outputs side by side in a packed weight: a lane owns an output

// One matrix of a coded weight.
struct CodedPart {
  WeightFormat format = WeightFormat::kQ8_0;
  const void* packed = nullptr;  // as ops/coded.h says, outputs counted from the part's first
};

// A [n, k] matrix, packed for the device, with an optional float32 bias [n]. A fused projection has up to kMaxParts parts: matrices one
// below the other.
struct Weight {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t n = 0, k = 0;
  const void* packed = nullptr;  // [ceil(n / 64)][k][64] elements of storage_dtype(format); outputs past n are zero. Coded: nullptr
  const float* bias = nullptr;
  // FP8 alone: element = stored number * scale, one for each output and `scale_group` inputs: [ceil(k / scale_group)][round_up(n, kPanel)].
  // A scale that more outputs share (of a whole part, of 128 rows) is repeated.
  const float* scales = nullptr;
  std::int64_t scale_group = 0;  // k, or kScaleGroup
  InputQuant input;              // in the weight's own FP8 encoding, or not quantised; coded: kInt8Input
  int num_parts = 1;
  std::array<std::int64_t, kMaxParts> first_rows{};  // of each part; the first is 0, ascending
  std::array<CodedPart, kMaxParts> coded{};          // coded alone: the parts, which may differ in format; `format` is the first one's

  // Of every format but coded ones (there: coded_bytes of each part).
  [[nodiscard]] static std::size_t packed_bytes(WeightFormat format, std::int64_t n, std::int64_t k) {
    return static_cast<std::size_t>((n + kPanel - 1) / kPanel * kPanel * k) * dtype_bytes(storage_dtype(format));
  }
  [[nodiscard]] static constexpr std::int64_t scale_rows(std::int64_t k, std::int64_t scale_group) { return (k + scale_group - 1) / scale_group; }
  // Elements of `scales`.
  [[nodiscard]] static constexpr std::int64_t scales_elements(std::int64_t n, std::int64_t k, std::int64_t scale_group) {
    return scale_rows(k, scale_group) * ((n + kPanel - 1) / kPanel * kPanel);
  }
  // One past the last output of a part.
  [[nodiscard]] std::int64_t end_row(int part) const { return part + 1 < num_parts ? first_rows[static_cast<std::size_t>(part + 1)] : n; }
  [[nodiscard]] std::int64_t part_rows(int part) const { return end_row(part) - first_rows[static_cast<std::size_t>(part)]; }
};

}  // namespace quire::ops
