// A 16- or 32-bit matrix in FP8 e4m3: its scales, and its rows divided by them and rounded. Float32 arithmetic, one division and one rounding
// for each number, so the bytes are the same on every machine. Knows no file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "quantize/form.h"

namespace quire::quantize {

struct Matrix {
  std::string name;                  // for messages
  DType dtype = DType::kBF16;        // kF32, kF16 or kBF16
  std::span<const std::byte> bytes;  // [rows, columns], any alignment
  std::int64_t rows = 0, columns = 0;
};

// {}: one number; {rows, 1}; {ceil(rows / 128), ceil(columns / 128)}.
[[nodiscard]] std::vector<std::int64_t> scale_shape(model::WeightScaling kind, std::int64_t rows, std::int64_t columns);

// Largest magnitude / 448 of each part of that shape; 1 for a part that is all zeros. NaN or infinity is refused (kCorrupt) with its place.
[[nodiscard]] Result<std::vector<float>> weight_scales(const Matrix& matrix, model::WeightScaling kind);

struct RowRange {
  std::int64_t first = 0, count = 0;
};
// These rows as e4m3 (OCP), rows.count * columns bytes: x / scale, to nearest, ties to even, saturating. `scales`: of the matrix.
void round_rows(const Matrix& matrix, model::WeightScaling kind, std::span<const float> scales, RowRange rows, std::span<std::uint8_t> out);

}  // namespace quire::quantize
