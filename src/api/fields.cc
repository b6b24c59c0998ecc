#include "api/fields.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "base/check.h"
#include "base/log.h"

namespace quire::api {
namespace {

namespace json = boost::json;

const FieldRule* find_rule(std::string_view name, Endpoint endpoint) {
  for (const FieldRule& rule : field_rules())
    if (rule.name == name && (rule.endpoints & endpoint) != 0) return &rule;
  return nullptr;
}

const char* type_words(FieldType type) {
  switch (type) {
    case FieldType::kBool: return "true or false";
    case FieldType::kInteger: return "an integer";
    case FieldType::kNumber: return "a finite number";
    case FieldType::kString: return "a string";
    case FieldType::kStrings: return "a string or a list of strings";
    case FieldType::kIntegers: return "a list of integers";
    case FieldType::kObject: return "an object";
    case FieldType::kArray: return "a list";
    case FieldType::kAny: return "any value";
  }
  return "";
}

std::optional<double> as_number(const json::value& value) {
  double number = 0;
  if (value.is_double()) number = value.get_double();
  else if (value.is_int64()) number = static_cast<double>(value.get_int64());
  else if (value.is_uint64()) number = static_cast<double>(value.get_uint64());
  else return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

bool all_of_list(const json::value& value, bool (*good)(const json::value&)) {
  if (!value.is_array()) return false;
  for (const json::value& item : value.get_array())
    if (!good(item)) return false;
  return true;
}

bool has_type(const json::value& value, FieldType type) {
  switch (type) {
    case FieldType::kBool: return value.is_bool();
    case FieldType::kInteger: return as_integer(value).has_value();
    case FieldType::kNumber: return as_number(value).has_value();
    case FieldType::kString: return value.is_string();
    case FieldType::kStrings: return value.is_string() || all_of_list(value, [](const json::value& v) { return v.is_string(); });
    case FieldType::kIntegers: return all_of_list(value, [](const json::value& v) { return as_integer(v).has_value(); });
    case FieldType::kObject: return value.is_object();
    case FieldType::kArray: return value.is_array();
    case FieldType::kAny: return true;
  }
  return false;
}

bool is_neutral(const json::value& value) {
  if (value.is_null()) return true;
  if (value.is_bool()) return !value.get_bool();
  if (value.is_string()) return value.get_string().empty();
  if (value.is_array()) return value.get_array().empty();
  if (value.is_object()) return value.get_object().empty();
  return false;
}

std::string named(const FieldRule& rule, const json::value& value) { return std::string(rule.name) + ": " + shown(value); }

Status over_limit(const FieldRule& rule, const json::value& value, std::int64_t limit, const char* limit_name) {
  return invalid(named(rule, value) + " is over the limit of " + std::to_string(limit) + " (" + limit_name + ")", std::string(rule.name));
}

Status check_cap(const FieldRule& rule, const json::value& value, const FieldLimits& limits) {
  switch (rule.cap) {
    case Cap::kNone: return {};
    case Cap::kMaxN:
      if (*as_integer(value) > limits.max_n) return over_limit(rule, value, limits.max_n, "samples per prompt");
      return {};
    case Cap::kMaxLogprobs: {
      const std::int64_t most = limits.max_logprobs < 0 ? limits.vocab_size : limits.max_logprobs;
      if (*as_integer(value) == -1 && limits.max_logprobs >= 0 && limits.max_logprobs < limits.vocab_size)
        return invalid(named(rule, value) + " asks for the whole vocabulary; the limit is " + std::to_string(most) + " (--max-logprobs)", std::string(rule.name));
      if (*as_integer(value) > most) return over_limit(rule, value, most, "--max-logprobs");
      return {};
    }
    case Cap::kMaxStops: {
      const std::size_t count = value.is_array() ? value.get_array().size() : 1;
      if (count > static_cast<std::size_t>(limits.max_stops))
        return invalid(std::string(rule.name) + ": " + std::to_string(count) + " strings are over the limit of " + std::to_string(limits.max_stops), std::string(rule.name));
      return {};
    }
  }
  return {};
}

Status check_field(const FieldRule& rule, const json::value& value, const FieldLimits& limits) {
  if (value.is_null()) return {};
  if (rule.fate == Fate::kNotBuilt) {
    if (is_neutral(value)) return {};
    return Error{ErrorCode::kUnsupported, std::string(rule.name) + ": " + std::string(rule.text), std::string(rule.name)};
  }
  if (!has_type(value, rule.type))
    return invalid(named(rule, value) + " is not " + type_words(rule.type), std::string(rule.name));
  if (rule.type == FieldType::kInteger || rule.type == FieldType::kNumber) {
    const double number = *as_number(value);
    if (number < rule.low || number > rule.high || (rule.low_open && number == rule.low))
      return invalid(named(rule, value) + " is out of range; allowed: " + std::string(rule.text), std::string(rule.name));
  }
  return check_cap(rule, value, limits);
}

}  // namespace

Status check_fields(const json::object& request, Endpoint endpoint, const FieldLimits& limits) {
  for (const json::key_value_pair& member : request) {
    const FieldRule* rule = find_rule(member.key(), endpoint);
    if (rule == nullptr) {
      QUIRE_LOG_DEBUG("request field '{}' is unknown and ignored", std::string_view(member.key()).substr(0, 64));
      continue;
    }
    QUIRE_RETURN_IF_ERROR(check_field(*rule, member.value(), limits));
  }
  return {};
}

const json::value* find_field(const json::object& request, std::string_view name) {
  const json::value* value = request.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool read_bool(const json::object& request, std::string_view name, bool fallback) {
  const json::value* value = find_field(request, name);
  return value == nullptr ? fallback : value->as_bool();
}

std::optional<std::int64_t> read_integer(const json::object& request, std::string_view name) {
  const json::value* value = find_field(request, name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  QUIRE_CHECK(number.has_value()) << name << " was not checked";
  return number;
}

std::optional<double> read_number(const json::object& request, std::string_view name) {
  const json::value* value = find_field(request, name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_number(*value);
  QUIRE_CHECK(number.has_value()) << name << " was not checked";
  return number;
}

std::optional<std::string> read_string(const json::object& request, std::string_view name) {
  const json::value* value = find_field(request, name);
  if (value == nullptr) return std::nullopt;
  return std::string(std::string_view(value->as_string()));
}

std::vector<std::string> read_strings(const json::object& request, std::string_view name) {
  std::vector<std::string> out;
  const json::value* value = find_field(request, name);
  if (value == nullptr) return out;
  if (value->is_string()) {
    out.emplace_back(std::string_view(value->get_string()));
    return out;
  }
  for (const json::value& item : value->as_array()) out.emplace_back(std::string_view(item.as_string()));
  return out;
}

std::vector<std::int64_t> read_integers(const json::object& request, std::string_view name) {
  std::vector<std::int64_t> out;
  const json::value* value = find_field(request, name);
  if (value == nullptr) return out;
  out.reserve(value->as_array().size());
  for (const json::value& item : value->get_array()) out.push_back(*as_integer(item));
  return out;
}

std::optional<std::int64_t> as_integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double number = value.get_double();
    // 2^53: above it a double no longer says which integer was meant.
    if (std::abs(number) > 9007199254740992.0 || std::trunc(number) != number) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  return std::nullopt;  // uint64 means above int64's range
}

std::string shown(const json::value& value) {
  constexpr std::size_t kMost = 80;
  if (value.is_array()) return "a list of " + std::to_string(value.get_array().size());
  if (value.is_object()) return "an object";
  std::string text = json::serialize(value);
  if (text.size() <= kMost) return text;
  std::size_t cut = kMost;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
  return text.substr(0, cut) + "...";
}

}  // namespace quire::api
