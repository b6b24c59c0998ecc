#include "reference/linear.h"

#include <algorithm>

namespace quire::reference {
namespace {

// Eight rows at a time, interleaved, only so that a whole-model reference ends in seconds: each sum still runs alone, in rising k.
constexpr std::int64_t kRowsTogether = 8;

// [cols, kRowsTogether]; rows past the last one are zero and their sums are dropped.
std::vector<double> interleave(const Matrix& x, std::int64_t first, std::int64_t rows) {
  std::vector<double> out(static_cast<std::size_t>(x.cols * kRowsTogether), 0.0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < x.cols; ++k) out[static_cast<std::size_t>(k * kRowsTogether + r)] = x.at(first + r, k);
  return out;
}

void accumulate(const double* x, std::span<const double> w, double* sums) {
  for (const double weight : w) {
    for (std::int64_t r = 0; r < kRowsTogether; ++r) sums[r] += x[r] * weight;
    x += kRowsTogether;
  }
}

}  // namespace

Matrix linear(const Matrix& x, const Matrix& w, std::span<const double> bias) {
  QUIRE_CHECK_EQ(x.cols, w.cols);
  QUIRE_CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == w.rows);
  Matrix y(x.rows, w.rows);
  for (std::int64_t m = 0; m < x.rows; m += kRowsTogether) {
    const std::int64_t rows = std::min(kRowsTogether, x.rows - m);
    const std::vector<double> inputs = interleave(x, m, rows);
    for (std::int64_t n = 0; n < w.rows; ++n) {
      double sums[kRowsTogether] = {};
      accumulate(inputs.data(), w.row(n), sums);
      for (std::int64_t r = 0; r < rows; ++r) y.at(m + r, n) = sums[r] + (bias.empty() ? 0.0 : bias[static_cast<std::size_t>(n)]);
    }
  }
  return y;
}

}  // namespace quire::reference
