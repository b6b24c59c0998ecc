// Overflow-checked arithmetic for numbers that come from files or clients.
#pragma once
#include <concepts>
#include <optional>

namespace quire {

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
[[nodiscard]] constexpr T ceil_div(T a, T b) { return static_cast<T>((a + b - 1) / b); }
template <std::integral T>
[[nodiscard]] constexpr T round_up(T a, T b) { return static_cast<T>(ceil_div(a, b) * b); }

}  // namespace quire
