// What packing functions share: unaligned loads from checkpoint bytes, and where an element goes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace quire::ops {

template <class T>
[[nodiscard]] T load_at(const std::byte* bytes, std::int64_t i) {
  T x;
  std::memcpy(&x, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return x;
}
inline float as_float(float x) { return x; }
inline float as_float(BFloat16 x) { return to_float(x); }
inline float as_float(Float16 x) { return to_float(x); }

// Where element (row, column) goes: panels of 64 outputs, or row-major when panel is 1.
struct Place {
  std::int64_t panel, k, first_row;
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
    const std::int64_t n = first_row + row;
    return (n / panel * k + column) * panel + n % panel;
  }
};

}  // namespace quire::ops
