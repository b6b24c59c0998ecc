// Distinct integer types for the things the engine counts, so that a block id can never be passed where a slot is meant.
// "None" is a named state, never a magic value in callers' code.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace quire {

// An integer with a tag. Trivially copyable; default-constructed ids are none().
template <class Tag, class T>
struct Id {
  T value = kNone;

  static constexpr T kNone = static_cast<T>(-1);
  static constexpr Id none() { return Id{}; }
  [[nodiscard]] constexpr bool is_none() const { return value == kNone; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RequestId = Id<struct RequestTag, std::uint64_t>;
using BlockId = Id<struct BlockTag, std::int32_t>;
// Position of one token in the KV pool: block * block_size + offset; none() means "do not write".
using SlotId = Id<struct SlotTag, std::int64_t>;
// Row of the device-resident per-request state (token history, sampling state).
using StateRow = Id<struct StateRowTag, std::int32_t>;

// Token ids are plain integers on every wire and in every tensor; validity is checked at admission.
using TokenId = std::int32_t;

}  // namespace quire

template <class Tag, class T>
struct std::hash<quire::Id<Tag, T>> {
  std::size_t operator()(quire::Id<Tag, T> id) const noexcept { return std::hash<T>{}(id.value); }
};
