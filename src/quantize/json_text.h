// JSON as people keep it in checkpoint folders: two spaces a level, one value a line, keys in their own order.
#pragma once
#include <boost/json/value.hpp>
#include <string>

namespace quire::quantize {

// Ends in '\n'. Depth is bounded by the parser that made the value, or by our own tables.
[[nodiscard]] std::string pretty_json(const boost::json::value& value);

}  // namespace quire::quantize
