// The nearest valid name for a mistyped one, for error messages.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace quire {

// The candidate with the smallest edit distance, or "" when none is closer than half the name's length (at least 2).
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates);
// " (did you mean 'X'?)" or "".
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace quire
