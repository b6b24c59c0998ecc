// Weights of small integer codes times int8 inputs. Shares nothing with the formats that such codes come from.
#pragma once
#include <cstdint>
#include <span>

#include "reference/matrix.h"
#include "reference/quantise.h"

namespace quire::reference {

// value = scale * code + offset, a scale and an offset for each `group` inputs of an output.
struct Coded {
  Matrix codes;            // [n, k]
  Matrix scales, offsets;  // [n, k / group]
  std::int64_t group = 32;
  [[nodiscard]] Matrix values() const;
};

// y[m, n] = sum over k of (scale * code + offset) * x.stored * x.scale, + bias[n]; of x each k / x.scales.cols inputs share a scale.
[[nodiscard]] Matrix linear_coded(const Quantised& x, const Coded& w, std::span<const double> bias = {});

}  // namespace quire::reference
