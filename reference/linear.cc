#include "reference/linear.h"

#include <algorithm>

namespace quire::reference {
namespace {

// Four rows at a time only so that a whole-model reference ends in seconds: each sum still runs alone, in rising k.
constexpr std::int64_t kRowsTogether = 4;

void accumulate(const double* const* x, std::int64_t rows, std::span<const double> w, double* sums) {
  if (rows == kRowsTogether) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      s0 += x[0][k] * w[k];
      s1 += x[1][k] * w[k];
      s2 += x[2][k] * w[k];
      s3 += x[3][k] * w[k];
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    sums[r] = 0.0;
    for (std::size_t k = 0; k < w.size(); ++k) sums[r] += x[r][k] * w[k];
  }
}

}  // namespace

Matrix linear(const Matrix& x, const Matrix& w, std::span<const double> bias) {
  QUIRE_CHECK_EQ(x.cols, w.cols);
  QUIRE_CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == w.rows);
  Matrix y(x.rows, w.rows);
  for (std::int64_t m = 0; m < x.rows; m += kRowsTogether) {
    const std::int64_t rows = std::min(kRowsTogether, x.rows - m);
    const double* inputs[kRowsTogether] = {};
    for (std::int64_t r = 0; r < rows; ++r) inputs[r] = x.row(m + r).data();
    for (std::int64_t n = 0; n < w.rows; ++n) {
      double sums[kRowsTogether] = {};
      accumulate(inputs, rows, w.row(n), sums);
      for (std::int64_t r = 0; r < rows; ++r) y.at(m + r, n) = sums[r] + (bias.empty() ? 0.0 : bias[static_cast<std::size_t>(n)]);
    }
  }
  return y;
}

}  // namespace quire::reference
