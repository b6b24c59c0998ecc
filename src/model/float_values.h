// A few numbers of a file (scales) as float32. Internal to model/.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/kv_scales.h"

namespace quire::model {

// `bytes` of kF32, kF16 or kBF16, any alignment.
[[nodiscard]] inline std::vector<float> float_values(DType dtype, std::span<const std::byte> bytes) {
  const auto load = [&]<class T>(std::size_t i, T value) {
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  };
  std::vector<float> out(bytes.size() / dtype_bytes(dtype));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = dtype == DType::kF32 ? load(i, float{}) : dtype == DType::kF16 ? to_float(load(i, Float16{})) : to_float(load(i, BFloat16{}));
  return out;
}

// Whatever it is, for a message that refuses it.
[[nodiscard]] inline std::string shown_scale(float x) { return std::isnan(x) ? "NaN" : std::isinf(x) ? (x > 0 ? "infinity" : "-infinity") : scale_text(x); }

}  // namespace quire::model
