// Text of one flag or variable to a typed value. Strings come from outside: every function is total, none throws.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "config/flag_table.h"

namespace quire::config {

// Decimal integers; suffix k, m, g, t = powers of 1000 (a fraction is allowed when the product is whole: 25.6k), K, M, G, T = powers of 1024.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<double> parse_number(std::string_view text);  // finite decimal
// 1, true, yes, on / 0, false, no, off, any case.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);

struct IntRange {
  std::int64_t lo = INT64_MIN, hi = INT64_MAX;
};
[[nodiscard]] IntRange int_range(std::string_view allowed);  // "lo..hi"
// What a row accepts, for messages, help and documents: "an integer from 0 to 65535", "one of auto, fcfs".
[[nodiscard]] std::string allowed_text(const FlagRow& row);
[[nodiscard]] bool is_word(std::string_view words, std::string_view text, char separator = '|');

// Is `text` a value of `row`? The message starts with "--name value:" and says what is allowed. kJson values are checked by Options.
[[nodiscard]] Status check_value(const FlagRow& row, std::string_view spelling, std::string_view text);

}  // namespace quire::config
