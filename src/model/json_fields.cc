#include "model/json_fields.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <sstream>

#include "base/files.h"

namespace quire::model {
namespace {

Error corrupt(std::string text) { return Error{ErrorCode::kCorrupt, std::move(text), {}}; }

}  // namespace

Result<boost::json::value> parse_object(std::string_view text, const std::string& what, const JsonLimits& limits) {
  auto parsed = parse_json(text, limits);
  if (!parsed.ok()) return corrupt(what + ": " + parsed.error().message);
  if (!parsed.value().is_object()) return corrupt(what + ": must be a JSON object");
  return parsed;
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

Status Findings::status(const std::string& file) const {
  if (texts_.empty()) return {};
  constexpr std::size_t kMost = 20;
  std::string message = file + ": ";
  for (std::size_t i = 0; i < texts_.size() && i < kMost; ++i) message += (i == 0 ? "" : "; ") + texts_[i];
  if (texts_.size() > kMost) message += "; and " + std::to_string(texts_.size() - kMost) + " more";
  return Error{any_unsupported_ ? ErrorCode::kUnsupported : ErrorCode::kCorrupt, std::move(message), {}};
}

}  // namespace quire::model
