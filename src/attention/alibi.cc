#include "attention/alibi.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace quire::attention {

std::vector<float> alibi_slopes(std::int32_t num_heads) {
  QUIRE_CHECK_GE(num_heads, 1);
  const auto power = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(num_heads)));
  std::vector<float> slopes;
  slopes.reserve(static_cast<std::size_t>(num_heads));
  for (std::int32_t h = 0; h < num_heads; ++h) {
    // Heads past the power of two sit half a step between its first ones.
    const double exponent = h < power ? h + 1.0 : h - power + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * exponent / power)));
  }
  return slopes;
}

}  // namespace quire::attention
