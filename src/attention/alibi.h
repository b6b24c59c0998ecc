// ALiBi's published slopes (Press et al. 2022, arXiv:2108.12409), for models that name none of their own.
#pragma once
#include <cstdint>
#include <vector>

namespace quire::attention {

// [num_heads], rounded to float32; num_heads >= 1. A power of two n gives 2^(-8 i / n), i = 1 .. n; any other count the slopes of the
// power of two below it and then every other slope of the power above.
[[nodiscard]] std::vector<float> alibi_slopes(std::int32_t num_heads);

}  // namespace quire::attention
