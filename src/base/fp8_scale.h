// Scales of FP8 numbers: element = stored number * scale. The one place for what a scale may be and how one is made of the largest magnitude.
#pragma once
#include <algorithm>
#include <limits>

#include "base/fp8.h"

namespace quire::fp8 {

inline constexpr float kLargestE4m3 = decode(kE4m3, kE4m3.largest), kLargestE4m3Fnuz = decode(kE4m3Fnuz, kE4m3Fnuz.largest);

// Below, x / scale overflows for ordinary x; above, the largest stored number times its scale does.
inline constexpr float kLeastScale = std::numeric_limits<float>::min(), kMostScale = std::numeric_limits<float>::max() / kLargestE4m3;
[[nodiscard]] constexpr bool is_scale(float x) { return x >= kLeastScale && x <= kMostScale; }  // NaN is none

// most / divisor, at least kLeastScale; 1 where nothing but zeros was seen, which any scale serves alike. most >= 0, divisor > 0.
[[nodiscard]] constexpr float scale_of(float most, float divisor) { return most == 0.0f ? 1.0f : std::max(most / divisor, kLeastScale); }

}  // namespace quire::fp8
