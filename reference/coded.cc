#include "reference/coded.h"

#include "reference/linear.h"

namespace quire::reference {

Matrix Coded::values() const {
  Matrix out(codes.rows, codes.cols);
  for (std::int64_t n = 0; n < out.rows; ++n)
    for (std::int64_t k = 0; k < out.cols; ++k) out.at(n, k) = scales.at(n, k / group) * codes.at(n, k) + offsets.at(n, k / group);
  return out;
}

Matrix linear_coded(const Quantised& x, const Coded& w, std::span<const double> bias) {
  Matrix inputs = x.stored;
  const std::int64_t group = inputs.cols / x.scales.cols;
  QUIRE_CHECK_EQ(group * x.scales.cols, inputs.cols);
  for (std::int64_t m = 0; m < inputs.rows; ++m)
    for (std::int64_t k = 0; k < inputs.cols; ++k) inputs.at(m, k) *= x.scales.at(m, k / group);
  return linear(inputs, w.values(), bias);
}

}  // namespace quire::reference
