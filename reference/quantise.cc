#include "reference/quantise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "reference/fp8.h"
#include "reference/rounding.h"

namespace quire::reference {
namespace {

double narrow(double x) { return round_to(DType::kF32, x); }

double largest_number(DType fp8) {
  double largest = 0.0;
  for (const double v : fp8_values(fp8))
    if (std::isfinite(v)) largest = std::max(largest, v);
  return largest;
}

double stored_number(double x, DType fp8, double scale) { return round_to(fp8, narrow(x / scale)); }

Quantised by_group(const Matrix& x, DType fp8, std::int64_t group, double smallest_scale) {
  Quantised out{Matrix(x.rows, x.cols), Matrix(x.rows, (x.cols + group - 1) / group)};
  const double largest = largest_number(fp8);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t g = 0; g < out.scales.cols; ++g) {
      const std::int64_t begin = g * group, end = std::min(x.cols, begin + group);
      double most = 0.0;
      for (std::int64_t c = begin; c < end; ++c)
        if (!std::isnan(x.at(r, c))) most = std::max(most, std::fabs(x.at(r, c)));
      const double scale = std::max(narrow(most / largest), smallest_scale);
      out.scales.at(r, g) = scale;
      for (std::int64_t c = begin; c < end; ++c) out.stored.at(r, c) = stored_number(x.at(r, c), fp8, scale);
    }
  return out;
}

}  // namespace

Quantised quantise_with(const Matrix& x, DType fp8, double scale) {
  Quantised out{Matrix(x.rows, x.cols), Matrix(x.rows, 1)};
  std::fill(out.scales.values.begin(), out.scales.values.end(), scale);
  std::ranges::transform(x.values, out.stored.values.begin(), [&](double v) { return stored_number(v, fp8, scale); });
  return out;
}

Quantised quantise_by_row(const Matrix& x, DType fp8) { return by_group(x, fp8, x.cols, narrow(1.0 / (512.0 * largest_number(fp8)))); }

Quantised quantise_by_group(const Matrix& x, DType fp8, std::int64_t group) { return by_group(x, fp8, group, narrow(narrow(1e-10) / largest_number(fp8))); }

Quantised quantise_int8(const Matrix& x, std::int64_t group) {
  QUIRE_CHECK_EQ(x.cols % group, 0);
  Quantised out{Matrix(x.rows, x.cols), Matrix(x.rows, x.cols / group)};
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t g = 0; g < out.scales.cols; ++g) {
      double most = 0.0;
      bool finite = true;
      for (std::int64_t c = g * group; c < (g + 1) * group; ++c) {
        finite = finite && std::isfinite(x.at(r, c));
        most = std::max(most, std::fabs(x.at(r, c)));
      }
      const double scale = out.scales.at(r, g) = finite ? narrow(most / 127.0) : std::numeric_limits<double>::quiet_NaN();
      if (!(scale > 0.0)) continue;
      for (std::int64_t c = g * group; c < (g + 1) * group; ++c) out.stored.at(r, c) = std::clamp(std::nearbyint(narrow(x.at(r, c) / scale)), -127.0, 127.0);
    }
  return out;
}

Matrix linear_scaled(const Quantised& x, const Quantised& w, std::int64_t group, std::span<const double> bias) {
  QUIRE_CHECK_EQ(x.stored.cols, w.stored.cols);
  QUIRE_CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == w.stored.rows);
  Matrix y(x.stored.rows, w.stored.rows);
  for (std::int64_t m = 0; m < y.rows; ++m)
    for (std::int64_t n = 0; n < y.cols; ++n) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < x.stored.cols; ++k) {
        const std::int64_t g = k / group;
        sum += x.stored.at(m, k) * w.stored.at(n, k) * x.scales.at(m, x.scales.cols == 1 ? 0 : g) * w.scales.at(n, w.scales.cols == 1 ? 0 : g);
      }
      y.at(m, n) = sum + (bias.empty() ? 0.0 : bias[static_cast<std::size_t>(n)]);
    }
  return y;
}

}  // namespace quire::reference
