// Writing to and reading from a paged KV pool in host memory, element by element through KvLayout::element: knows the layout
// description alone and nothing of any kernel's walk over it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/store/kv_layout.h"
#include "reference/matrix.h"

namespace quire::reference {

// The pool's bytes, little-endian elements of layout.dtype; layout.total_bytes() of them.
struct KvElement {
  std::int32_t layer = 0;
  std::int64_t block = 0;
  kv::Part part = kv::Part::kKey;
  std::int32_t head = 0;
  std::int32_t offset = 0;  // token inside the block
  std::int32_t dim = 0;
};

// Of one layer of an FP8 cache: a number x is stored as x / scale. Empty: 1 everywhere.
struct KvScales {
  std::vector<double> keys, values;  // [num_kv_heads] each
  [[nodiscard]] double of(kv::Part part, std::int32_t head) const {
    const std::vector<double>& scales = part == kv::Part::kKey ? keys : values;
    return scales.empty() ? 1.0 : scales.at(static_cast<std::size_t>(head));
  }
};

// The stored number, without its scale.
[[nodiscard]] double kv_read(const kv::KvLayout& layout, std::span<const std::byte> pool, const KvElement& element);
// Stores `value` rounded once to layout.dtype (rounding.h). NaN is stored as a NaN.
void kv_write_element(const kv::KvLayout& layout, std::span<std::byte> pool, const KvElement& element, double value);

struct KvRows {
  std::int32_t layer = 0;
  const Matrix& keys;             // [T, num_kv_heads * head_dim], already turned by rope
  const Matrix& values;           // [T, num_kv_heads * head_dim]
  std::span<const SlotId> slots;  // [T]; slot = block * block_size + offset; none(): that row is not written
  KvScales scales = {};
};
// Rows go to their slots in rising order: of two rows with one slot the later stays. Nothing else in the pool changes.
void kv_write(const kv::KvLayout& layout, std::span<std::byte> pool, const KvRows& rows);

}  // namespace quire::reference
