#include "reference/silu_mul.h"

#include <cmath>
#include <numbers>

namespace quire::reference {
namespace {

Matrix gated(const Matrix& gate_up, double (*activation)(double)) {
  QUIRE_CHECK_EQ(gate_up.cols % 2, 0);
  const std::int64_t width = gate_up.cols / 2;
  Matrix y(gate_up.rows, width);
  for (std::int64_t r = 0; r < y.rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) y.at(r, i) = activation(gate_up.at(r, i)) * gate_up.at(r, width + i);
  return y;
}

}  // namespace

double silu(double g) { return g / (1.0 + std::exp(-g)); }

// 1 + tanh(u) loses everything to cancellation where u is far below 0, and 2 / (1 + e^-2u) is the same number.
double gelu_tanh(double g) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (g + 0.044715 * g * g * g);
  return u < -1.0 ? g / (1.0 + std::exp(-2.0 * u)) : g / 2.0 * (1.0 + std::tanh(u));
}

Matrix silu_mul(const Matrix& gate_up) { return gated(gate_up, silu); }
Matrix gelu_tanh_mul(const Matrix& gate_up) { return gated(gate_up, gelu_tanh); }

}  // namespace quire::reference
