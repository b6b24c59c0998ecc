// The scale of activations that are quantised with a row at hand.
#pragma once
#include <algorithm>

#include "base/fp8_scale.h"
#include "ops/tensors.h"

namespace quire::ops {

[[nodiscard]] constexpr float largest_of(ActFormat f) { return f == ActFormat::kFp8E4m3 ? fp8::kLargestE4m3 : fp8::kLargestE4m3Fnuz; }

// Int8: scale = largest magnitude of a group over this, numbers to the nearest integer (ties to even) and no larger than it.
inline constexpr float kLargestInt8 = 127.0f;

// FP8. Below it no scale goes, so that zeros divide by something: as vLLM has it, 1 / (512 * largest) for a row, 1e-10 / largest for a group.
[[nodiscard]] constexpr float smallest_row_scale(const InputQuant& q) {
  return q.scaling == ActScaling::kPerToken ? 1.0f / (512.0f * largest_of(q.format)) : 1e-10f / largest_of(q.format);
}
// Of a row or group whose largest magnitude is `largest`; infinity gives infinity.
[[nodiscard]] constexpr float row_scale(float largest, const InputQuant& q) { return std::max(largest / largest_of(q.format), smallest_row_scale(q)); }

}  // namespace quire::ops
