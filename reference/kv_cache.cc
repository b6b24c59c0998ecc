#include "reference/kv_cache.h"

#include "reference/rounding.h"

namespace quire::reference {
namespace {

std::size_t first_byte(const kv::KvLayout& layout, std::size_t pool_bytes, const KvElement& e) {
  QUIRE_CHECK_EQ(static_cast<std::int64_t>(pool_bytes), layout.total_bytes());
  QUIRE_CHECK(e.dim >= 0 && e.dim < layout.head_dim) << e.dim;
  const std::int64_t index = layout.element(e.layer, e.block, e.part, e.head, e.offset, e.dim);
  return static_cast<std::size_t>(index) * dtype_bytes(layout.dtype);
}

}  // namespace

double kv_read(const kv::KvLayout& layout, std::span<const std::byte> pool, const KvElement& element) {
  const std::size_t first = first_byte(layout, pool.size(), element);
  std::uint32_t bits = 0;
  for (std::size_t i = dtype_bytes(layout.dtype); i-- > 0;) bits = bits << 8 | std::to_integer<std::uint32_t>(pool[first + i]);
  return decode(layout.dtype, bits);
}

void kv_write_element(const kv::KvLayout& layout, std::span<std::byte> pool, const KvElement& element, double value) {
  const std::size_t first = first_byte(layout, pool.size(), element);
  const std::uint32_t bits = encode(layout.dtype, value);
  for (std::size_t i = 0; i < dtype_bytes(layout.dtype); ++i) pool[first + i] = static_cast<std::byte>(bits >> (8 * i) & 0xffu);
}

void kv_write(const kv::KvLayout& layout, std::span<std::byte> pool, const KvRows& rows) {
  const std::int64_t width = std::int64_t{layout.num_kv_heads} * layout.head_dim;
  QUIRE_CHECK(rows.keys.cols == width && rows.values.cols == width && rows.keys.rows == rows.values.rows);
  QUIRE_CHECK_EQ(static_cast<std::int64_t>(rows.slots.size()), rows.keys.rows);
  for (std::int64_t t = 0; t < rows.keys.rows; ++t) {
    const SlotId slot = rows.slots[static_cast<std::size_t>(t)];
    if (slot.is_none()) continue;
    for (std::int64_t c = 0; c < width; ++c) {
      KvElement e{rows.layer,
                  slot.value / layout.block_size,
                  kv::Part::kKey,
                  static_cast<std::int32_t>(c / layout.head_dim),
                  static_cast<std::int32_t>(slot.value % layout.block_size),
                  static_cast<std::int32_t>(c % layout.head_dim)};
      kv_write_element(layout, pool, e, rows.keys.at(t, c) / rows.scales.of(kv::Part::kKey, e.head));
      e.part = kv::Part::kValue;
      kv_write_element(layout, pool, e, rows.values.at(t, c) / rows.scales.of(kv::Part::kValue, e.head));
    }
  }
}

}  // namespace quire::reference
