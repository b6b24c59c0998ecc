// Checkpoint bytes into the device's own weight order. Used once per parameter while loading.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "ops/tensors.h"

namespace quire::ops {

struct RawMatrix {
  std::string name;                  // for messages
  DType dtype = DType::kBF16;        // kF32, kF16 or kBF16
  std::span<const std::byte> bytes;  // row-major, any alignment
  std::int64_t rows = 0, columns = 0;
};

// Rows [0, raw.rows) of `raw` become outputs [first_row, first_row + raw.rows) of a packed weight in `target` (format, k = raw.columns).
// Rounds to nearest even; a finite value that becomes infinite in `format` is refused (kInvalidArgument), naming it.
[[nodiscard]] Status pack_rows(const RawMatrix& raw, WeightFormat format, std::int64_t first_row, void* target);
// Row-major in `format` (embedding tables).
[[nodiscard]] Status store_rows(const RawMatrix& raw, WeightFormat format, void* target);
// Float32 (norm weights, biases).
[[nodiscard]] Status store_f32(const RawMatrix& raw, float* target);

}  // namespace quire::ops
