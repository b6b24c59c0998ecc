#include "base/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse_options.hpp>
#include <boost/json/parser.hpp>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/files.h"

namespace quire {
namespace {

// Follows a parse and remembers the keys of every open object. Depth is bounded by the parser's own limit.
class DuplicateKeyHandler {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
  using Code = boost::json::error_code;
  using Text = boost::json::string_view;

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) {
    open_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, Code&) {
    open_.pop_back();
    return true;
  }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t, Code&) { return true; }
  bool on_key_part(Text part, std::size_t, Code&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(Text part, std::size_t, Code& ec) {
    key_.append(part.data(), part.size());
    if (!open_.back().insert(key_).second) {
      duplicate_ = key_;
      ec = boost::json::make_error_code(boost::json::error::exception);
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_string_part(Text, std::size_t, Code&) { return true; }
  bool on_string(Text, std::size_t, Code&) { return true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(std::int64_t, Text, Code&) { return true; }
  bool on_uint64(std::uint64_t, Text, Code&) { return true; }
  bool on_double(double, Text, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

  [[nodiscard]] const std::optional<std::string>& duplicate() const { return duplicate_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::string key_;
  std::optional<std::string> duplicate_;
};

// Only called on text that parsed already, so every other failure is impossible.
std::optional<std::string> duplicate_key(std::string_view text, const JsonLimits& limits) {
  boost::json::parse_options options;
  options.max_depth = limits.max_depth;
  boost::json::basic_parser<DuplicateKeyHandler> parser(options);
  boost::json::error_code ec;
  (void)parser.write_some(false, text.data(), text.size(), ec);
  return parser.handler().duplicate();
}

// At least as many as the text has: commas and opening brackets outside of strings.
std::size_t most_values(std::string_view text) {
  std::size_t count = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    else if (c == '"') in_string = !in_string;
    else if (!in_string) count += c == ',' || c == '[' || c == '{' ? 1 : 0;
  }
  return count;
}

Result<boost::json::value> parse(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return Error{ErrorCode::kTooLarge, "JSON of " + std::to_string(text.size()) + " bytes is over the limit of " + std::to_string(limits.max_bytes), {}};
  if (text.size() > limits.max_values && most_values(text) > limits.max_values)
    return Error{ErrorCode::kTooLarge, "JSON of more than " + std::to_string(limits.max_values) + " values is over the limit", {}};
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
  if (limits.duplicate_keys == JsonLimits::DuplicateKeys::kRefuse) {
    if (const auto key = duplicate_key(text, limits)) return invalid("invalid JSON: key " + shown_text(*key) + " stands twice in one object");
  }
  return parser.release();
}

}  // namespace

Result<boost::json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  try {
    return parse(text, limits);
  } catch (const std::exception& e) {  // allocation inside the JSON library
    return invalid(std::string("JSON cannot be parsed: ") + e.what());
  }
}

Result<boost::json::value> parse_json_file(const std::string& path, const JsonLimits& limits) {
  auto text = read_file(path, limits.max_bytes);
  if (!text.ok()) return text.error();
  auto value = parse_json(text.value(), limits);
  if (!value.ok()) return Error{ErrorCode::kCorrupt, path + ": " + value.error().message, {}};
  return value;
}

std::string shown_text(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f || c == '"' || c == '\\') {
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  if (text.size() > kLongest) out += "...";
  return out + "\"";
}

}  // namespace quire
