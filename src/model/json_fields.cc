#include "model/json_fields.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <sstream>

#include "base/files.h"

namespace quire::model {
namespace {

// Follows a parse and remembers the keys of every open object. Depth is bounded by the parser's own limit.
class DuplicateKeyHandler {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
  using ErrorCode = boost::json::error_code;
  using Text = boost::json::string_view;

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode&) {
    open_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, ErrorCode&) {
    open_.pop_back();
    return true;
  }
  bool on_array_begin(ErrorCode&) { return true; }
  bool on_array_end(std::size_t, ErrorCode&) { return true; }
  bool on_key_part(Text part, std::size_t, ErrorCode&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(Text part, std::size_t, ErrorCode& ec) {
    key_.append(part.data(), part.size());
    if (!open_.back().insert(key_).second) {
      duplicate_ = key_;
      ec = boost::json::make_error_code(boost::json::error::exception);
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_string_part(Text, std::size_t, ErrorCode&) { return true; }
  bool on_string(Text, std::size_t, ErrorCode&) { return true; }
  bool on_number_part(Text, ErrorCode&) { return true; }
  bool on_int64(std::int64_t, Text, ErrorCode&) { return true; }
  bool on_uint64(std::uint64_t, Text, ErrorCode&) { return true; }
  bool on_double(double, Text, ErrorCode&) { return true; }
  bool on_bool(bool, ErrorCode&) { return true; }
  bool on_null(ErrorCode&) { return true; }
  bool on_comment_part(Text, ErrorCode&) { return true; }
  bool on_comment(Text, ErrorCode&) { return true; }

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

Error corrupt(std::string text) { return Error{ErrorCode::kCorrupt, std::move(text), {}}; }

}  // namespace

Result<boost::json::value> parse_object(std::string_view text, const std::string& what, const JsonLimits& limits) {
  try {
    auto parsed = parse_json(text, limits);
    if (!parsed.ok()) return corrupt(what + ": " + parsed.error().message);
    if (!parsed.value().is_object()) return corrupt(what + ": must be a JSON object");
    if (auto key = duplicate_key(text, limits)) return corrupt(what + ": key " + shown_text(*key) + " stands twice in one object");
    return parsed;
  } catch (const std::exception& e) {  // allocation inside the JSON library
    return corrupt(what + ": cannot be parsed: " + e.what());
  }
}

Result<boost::json::value> read_object(const std::string& path, const JsonLimits& limits) {
  if (!file_exists(path)) return Error{ErrorCode::kNotFound, path + ": no such file", {}};
  auto text = read_file(path, limits.max_bytes);
  if (!text.ok()) return text.error();
  return parse_object(text.value(), path, limits);
}

std::optional<std::int64_t> exact_integer(const boost::json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double d = value.get_double();
    constexpr double kExact = 9007199254740992.0;  // 2^53: above it, neighbours of a double are no longer single integers
    if (std::isfinite(d) && std::floor(d) == d && std::fabs(d) <= kExact) return static_cast<std::int64_t>(d);
  }
  return std::nullopt;  // an uint64 here is above INT64_MAX
}

std::optional<double> finite_number(const boost::json::value& value) {
  double d = 0;
  if (value.is_int64())
    d = static_cast<double>(value.get_int64());
  else if (value.is_uint64())
    d = static_cast<double>(value.get_uint64());
  else if (value.is_double())
    d = value.get_double();
  else
    return std::nullopt;
  return std::isfinite(d) ? std::optional<double>(d) : std::nullopt;
}

std::string shown(const boost::json::value& value) {
  constexpr std::size_t kLongest = 80;
  if (const double* d = value.if_double()) {  // the library writes 1.0 as 1E0
    std::ostringstream out;
    out.precision(17);
    out << *d;
    return out.str();
  }
  std::string text = boost::json::serialize(value);
  if (text.size() > kLongest) {
    text.resize(kLongest);
    text += "...";
  }
  return text;
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

Status Findings::status(const std::string& file) const {
  if (texts_.empty()) return {};
  constexpr std::size_t kMost = 20;
  std::string message = file + ": ";
  for (std::size_t i = 0; i < texts_.size() && i < kMost; ++i) message += (i == 0 ? "" : "; ") + texts_[i];
  if (texts_.size() > kMost) message += "; and " + std::to_string(texts_.size() - kMost) + " more";
  return Error{any_unsupported_ ? ErrorCode::kUnsupported : ErrorCode::kCorrupt, std::move(message), {}};
}

}  // namespace quire::model
