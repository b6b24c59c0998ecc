// Activations and weights in 8-bit floats, and activations in 8-bit integers, with scales: element = stored number * scale. Scales and quotients are float32 roundings by
// definition (docs/NUMERICS.md, "FP8 weights"), so that stored numbers are known exactly.
#pragma once
#include <span>

#include "base/dtype.h"
#include "reference/matrix.h"

namespace quire::reference {

struct Quantised {
  Matrix stored;  // numbers of the FP8 type, or whole ones
  Matrix scales;  // [rows, groups]; groups 1: one for the row
};

// stored = x / scale in float32, then in `fp8` (nearest, ties to even, saturating; NaN stays NaN).
[[nodiscard]] Quantised quantise_with(const Matrix& x, DType fp8, double scale);
// The scale of a row: its largest magnitude over the largest number of `fp8`, NaN not counted, and at least 1 / (512 * that number).
[[nodiscard]] Quantised quantise_by_row(const Matrix& x, DType fp8);
// The same of each `group` columns of a row, the last group perhaps shorter, and at least 1e-10 over that number.
[[nodiscard]] Quantised quantise_by_group(const Matrix& x, DType fp8, std::int64_t group);

// Whole numbers from -127 to 127, nearest to x / scale in float32, ties to even; the scale of each `group` columns, which divide a row: the largest
// magnitude over 127 in float32. NaN or infinity among them: the scale is NaN and the numbers are 0, as they are where the scale is 0.
[[nodiscard]] Quantised quantise_int8(const Matrix& x, std::int64_t group);

// y[m, n] = sum over groups of `group` inputs of (sum_k x.stored[m, k] w.stored[n, k]) x.scales[m, g] w.scales[n, g], + bias[n]. Scales with
// one column hold for all groups.
[[nodiscard]] Matrix linear_scaled(const Quantised& x, const Quantised& w, std::int64_t group, std::span<const double> bias = {});

}  // namespace quire::reference
