// Small pieces of text for messages, tables and names: one spelling of each. Bytes are ASCII where letters matter; knows no locale.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// The letters a-z or A-Z changed, every other byte kept.
[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);

// Spaces after or before the text up to `width` bytes; longer text is kept whole.
[[nodiscard]] std::string left_aligned(std::string text, std::size_t width);
[[nodiscard]] std::string right_aligned(std::string text, std::size_t width);

// `value` in one printf format of a double, such as "%.2e"; at most 63 bytes.
[[nodiscard]] std::string formatted(const char* format, double value);

[[nodiscard]] std::string joined(const std::vector<std::string>& words, std::string_view separator);

}  // namespace quire
