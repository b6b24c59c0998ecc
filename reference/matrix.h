// The one container of the reference: a dense row-major float64 matrix. No views, no strides, no arithmetic: a twin that shared a
// clever container with the code it checks could share its mistakes too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace quire::reference {

struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;  // [rows, cols]

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(checked_size(r, c), 0.0) {}
  // Takes `v` row by row; its length must be r * c.
  Matrix(std::int64_t r, std::int64_t c, std::vector<double> v) : rows(r), cols(c), values(std::move(v)) {
    QUIRE_CHECK_EQ(values.size(), checked_size(r, c));
  }
  [[nodiscard]] double& at(std::int64_t r, std::int64_t c) { return values[index(r, c)]; }
  [[nodiscard]] double at(std::int64_t r, std::int64_t c) const { return values[index(r, c)]; }
  [[nodiscard]] std::span<double> row(std::int64_t r) { return std::span(values).subspan(row_start(r), static_cast<std::size_t>(cols)); }
  [[nodiscard]] std::span<const double> row(std::int64_t r) const { return std::span(values).subspan(row_start(r), static_cast<std::size_t>(cols)); }

 private:
  static std::size_t checked_size(std::int64_t r, std::int64_t c) {
    QUIRE_CHECK(r >= 0 && c >= 0) << r << " x " << c;
    return static_cast<std::size_t>(r) * static_cast<std::size_t>(c);
  }
  [[nodiscard]] std::size_t row_start(std::int64_t r) const {
    QUIRE_CHECK(r >= 0 && r < rows) << "row " << r << " of " << rows;
    return static_cast<std::size_t>(r) * static_cast<std::size_t>(cols);
  }
  [[nodiscard]] std::size_t index(std::int64_t r, std::int64_t c) const {
    QUIRE_CHECK(c >= 0 && c < cols) << "column " << c << " of " << cols;
    return row_start(r) + static_cast<std::size_t>(c);
  }
};

}  // namespace quire::reference
