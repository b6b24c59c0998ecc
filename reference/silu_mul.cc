#include "reference/silu_mul.h"

#include <cmath>

namespace quire::reference {

double silu(double g) { return g / (1.0 + std::exp(-g)); }

Matrix silu_mul(const Matrix& gate_up) {
  QUIRE_CHECK_EQ(gate_up.cols % 2, 0);
  const std::int64_t width = gate_up.cols / 2;
  Matrix y(gate_up.rows, width);
  for (std::int64_t r = 0; r < y.rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) y.at(r, i) = silu(gate_up.at(r, i)) * gate_up.at(r, width + i);
  return y;
}

}  // namespace quire::reference
