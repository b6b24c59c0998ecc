// The reference's error bounds (reference/bounds.h) under the names that tests use.
#pragma once
#include "reference/bounds.h"

namespace quire::test {

using reference::attend_bounds;
using reference::AttentionBounds;
using reference::gamma;
using reference::int8_input_bounds;
using reference::linear_bounds;
using reference::linear_coded_bounds;
using reference::linear_scaled_bounds;
using reference::log_softmax_bounds;
using reference::Precision;
using reference::rms_norm_bounds;
using reference::rope_bounds;
using reference::rounding_error;
using reference::gelu_tanh_mul_bounds;
using reference::silu_mul_bounds;
using reference::smallest_subnormal;
using reference::unit_roundoff;

}  // namespace quire::test
