#include "base/json.h"

#include <boost/json/parse_options.hpp>
#include <boost/json/parser.hpp>

#include "base/files.h"

namespace quire {

Result<boost::json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return Error{ErrorCode::kTooLarge, "JSON of " + std::to_string(text.size()) + " bytes is over the limit of " + std::to_string(limits.max_bytes), {}};
  boost::json::parse_options options;
  options.max_depth = limits.max_depth;
  boost::json::parser parser({}, options);
  boost::json::error_code ec;
  const std::size_t used = parser.write_some(text.data(), text.size(), ec);
  if (ec) {
    if (ec == boost::json::error::too_deep)
      return invalid("JSON is nested deeper than the limit of " + std::to_string(limits.max_depth) + " levels");
    return invalid("invalid JSON near byte " + std::to_string(used) + ": " + ec.message());
  }
  if (text.find_first_not_of(" \t\r\n", used) != std::string_view::npos) return invalid("invalid JSON: extra text after the document at byte " + std::to_string(used));
  return parser.release();
}

Result<boost::json::value> parse_json_file(const std::string& path, const JsonLimits& limits) {
  auto text = read_file(path, limits.max_bytes);
  if (!text.ok()) return text.error();
  auto value = parse_json(text.value(), limits);
  if (!value.ok()) return Error{ErrorCode::kCorrupt, path + ": " + value.error().message, {}};
  return value;
}

}  // namespace quire
