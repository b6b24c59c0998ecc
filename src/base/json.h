// JSON from outside, with limits: size, depth and duplicate keys are checked before anything is built on it.
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
};

// Parses a whole document. Errors give the byte offset and the reason; NaN and Infinity are not JSON and are refused.
// Invalid UTF-8 is refused.
[[nodiscard]] Result<boost::json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

// Reads and parses a file; errors name the file.
[[nodiscard]] Result<boost::json::value> parse_json_file(const std::string& path, const JsonLimits& limits = {});

}  // namespace quire
