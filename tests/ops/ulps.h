// Errors of functions that have no exact float32 answer.
#pragma once
#include <algorithm>
#include <cmath>

namespace quire::test {

// |got - exact| in units in the last place of float32 at `exact`, subnormals included.
[[nodiscard]] inline double ulps(float got, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

}  // namespace quire::test
