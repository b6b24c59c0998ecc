#include "reference/norm.h"

#include <cmath>

namespace quire::reference {

Matrix rms_norm(const Matrix& x, std::span<const double> weight, double eps) {
  QUIRE_CHECK_EQ(static_cast<std::int64_t>(weight.size()), x.cols);
  Matrix y(x.rows, x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double sum_of_squares = 0.0;
    for (const double v : x.row(r)) sum_of_squares += v * v;
    const double root = std::sqrt(sum_of_squares / static_cast<double>(x.cols) + eps);
    for (std::int64_t i = 0; i < x.cols; ++i) y.at(r, i) = x.at(r, i) / root * weight[static_cast<std::size_t>(i)];
  }
  return y;
}

NormedResidual add_rms_norm(const Matrix& x, const Matrix& residual, std::span<const double> weight, double eps) {
  QUIRE_CHECK(x.rows == residual.rows && x.cols == residual.cols);
  Matrix sum = x;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += residual.values[i];
  Matrix normed = rms_norm(sum, weight, eps);
  return {std::move(normed), std::move(sum)};
}

}  // namespace quire::reference
