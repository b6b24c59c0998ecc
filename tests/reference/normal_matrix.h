// The same normally distributed numbers for every test that asks for as many.
#pragma once
#include <cstdint>
#include <random>

#include "kit/seed.h"
#include "reference/matrix.h"

namespace quire::reference {

[[nodiscard]] inline Matrix normal_matrix(std::int64_t rows, std::int64_t cols) {
  auto rng = test::seeded_rng();
  std::normal_distribution<double> normal;
  Matrix m(rows, cols);
  for (double& v : m.values) v = normal(rng);
  return m;
}

}  // namespace quire::reference
