// Activations and weights as operations see them: a value knows its own format, so that no model file ever names a kernel's dtype.
#pragma once
#include <cstdint>

#include "tensor/view.h"

namespace quire::ops {

enum class ActFormat : std::uint8_t { kF32 };

// [rows, columns] activations. Quantised formats carry their scales here.
struct ActTensor {
  TensorView values;
  ActFormat format = ActFormat::kF32;
  [[nodiscard]] std::int64_t rows() const { return values.dim(0); }
  [[nodiscard]] std::int64_t columns() const { return values.dim(1); }
  [[nodiscard]] ActTensor first_rows(std::int64_t n) const { return ActTensor{values.rows(n), format}; }
  [[nodiscard]] float* f32() const { return values.as<float>(); }
};

enum class WeightFormat : std::uint8_t { kF32, kF16, kBF16 };

[[nodiscard]] constexpr DType storage_dtype(WeightFormat f) {
  return f == WeightFormat::kF32 ? DType::kF32 : f == WeightFormat::kF16 ? DType::kF16 : DType::kBF16;
}

inline constexpr std::int64_t kPanel = 64;  // outputs side by side in a packed weight: a lane owns an output

// A [n, k] matrix, packed for the device, with an optional float32 bias [n].
struct Weight {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t n = 0, k = 0;
  const void* packed = nullptr;  // [ceil(n / 64)][k][64] elements of storage_dtype(format); outputs past n are zero
  const float* bias = nullptr;

  [[nodiscard]] static std::size_t packed_bytes(WeightFormat format, std::int64_t n, std::int64_t k) {
    return static_cast<std::size_t>((n + kPanel - 1) / kPanel * kPanel * k) * dtype_bytes(storage_dtype(format));
  }
};

}  // namespace quire::ops
