// JSON from outside, with limits: size, depth and duplicate keys are checked before anything is built on it. Knows no field names.
#pragma once
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

struct JsonLimits {
  std::size_t max_bytes = 64u << 20;
  std::size_t max_depth = 64;  // nesting of arrays and objects
  // Values, each array and object and what is in it: a byte of text can become 30 of memory ("[0,0,0").
  std::size_t max_values = 4u << 20;
  // A key that stands twice in one object, at any depth. Files and settings are refused: parsers differ in which value they keep, so
  // what a reader sees need not be what runs. Bodies of requests keep the last value, as servers written in Python do.
  enum class DuplicateKeys : unsigned char { kRefuse, kKeepLast } duplicate_keys = DuplicateKeys::kRefuse;
};

// Parses a whole document. Errors give the byte offset and the reason; NaN and Infinity are not JSON and are refused.
// Invalid UTF-8 is refused, and duplicate keys as `limits` say.
[[nodiscard]] Result<boost::json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

// Reads and parses a file; errors name the file.
[[nodiscard]] Result<boost::json::value> parse_json_file(const std::string& path, const JsonLimits& limits = {});

// The string in double quotes, control characters escaped, cut to about 120 bytes: safe to print, whoever wrote it.
[[nodiscard]] std::string shown_text(std::string_view text);

}  // namespace quire
