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

// A whole number of any size, in any spelling.
bool is_whole(const json::value& value) {
  if (value.is_int64() || value.is_uint64()) return true;
  return value.is_double() && std::isfinite(value.get_double()) && std::trunc(value.get_double()) == value.get_double();
}

bool has_type(const json::value& value, FieldType type) {
  switch (type) {
    case FieldType::kBool: return value.is_bool();
    case FieldType::kInteger: return is_whole(value);
    case FieldType::kNumber: return as_number(value).has_value();
    case FieldType::kString: return value.is_string();
    case FieldType::kStrings: return value.is_string() || value.is_array();
    case FieldType::kObject: return value.is_object();
    case FieldType::kIntegers:
    case FieldType::kArray: return value.is_array();
    case FieldType::kAny: return true;
  }
  return false;
}

bool asks_for_nothing(const json::value& value, Nothing nothing) {
  switch (nothing) {
    case Nothing::kNullAlone: return false;
    case Nothing::kFalse: return value.is_bool() && !value.get_bool();
    case Nothing::kZero: return as_integer(value) == 0;
    case Nothing::kEmptyList: return value.is_array() && value.get_array().empty();
    case Nothing::kEmptyObject: return value.is_object() && value.get_object().empty();
    case Nothing::kNoneWord: return value.is_string() && value.get_string() == "none";
  }
  return false;
}

std::string named(const FieldRule& rule, const json::value& value) { return std::string(rule.name) + ": " + shown(value); }

Status over_limit(const FieldRule& rule, const json::value& value, std::int64_t limit, const char* limit_name) {
  return invalid(named(rule, value) + " is over the limit of " + std::to_string(limit) + " (" + limit_name + ")", std::string(rule.name));
}

Status check_cap(const FieldRule& rule, const json::value& value, const FieldLimits& limits) {
  const std::string field(rule.name);
  switch (rule.cap) {
    case Cap::kNone: return {};
    case Cap::kMaxN:
      if (*as_number(value) > limits.max_n) return over_limit(rule, value, limits.max_n, "samples per prompt");
      return {};
    case Cap::kMaxLogprobs: {
      const std::int64_t most = limits.max_logprobs < 0 ? limits.vocab_size : limits.max_logprobs;
      if (*as_number(value) == -1 && limits.max_logprobs >= 0 && limits.max_logprobs < limits.vocab_size)
        return invalid(named(rule, value) + " asks for the whole vocabulary; the limit is " + std::to_string(most) + " (--max-logprobs)", field);
      if (*as_number(value) > static_cast<double>(most)) return over_limit(rule, value, most, "--max-logprobs");
      return {};
    }
    case Cap::kMaxStops: {
      const std::size_t count = value.is_array() ? value.get_array().size() : 1;
      if (count > static_cast<std::size_t>(limits.max_stops))
        return invalid(field + ": " + std::to_string(count) + " strings are over the limit of " + std::to_string(limits.max_stops), field);
      return {};
    }
  }
  return {};
}

// The first item that is not what the list is of; the list itself was checked.
Status check_items(const FieldRule& rule, const json::value& value) {
  if (!value.is_array()) return {};
  const bool of_strings = rule.type == FieldType::kStrings;
  if (!of_strings && rule.type != FieldType::kIntegers) return {};
  for (std::size_t i = 0; i < value.get_array().size(); ++i) {
    const json::value& item = value.get_array()[i];
    if (of_strings ? item.is_string() : is_whole(item)) continue;
    return invalid(Place{rule.name, i}.text() + ": " + shown(item) + " is not " + type_words(of_strings ? FieldType::kString : FieldType::kInteger), std::string(rule.name));
  }
  return {};
}

Status check_range(const FieldRule& rule, const json::value& value, const FieldLimits& limits) {
  if (rule.type != FieldType::kInteger && rule.type != FieldType::kNumber) return check_cap(rule, value, limits);
  const std::string field(rule.name);
  const double number = *as_number(value);
  const Error out_of_range = invalid(named(rule, value) + " is out of range; allowed: " + std::string(rule.text), field);
  if (number < rule.low || number > rule.high || (rule.low_open && number == rule.low)) return out_of_range;
  QUIRE_RETURN_IF_ERROR(check_cap(rule, value, limits));
  if (rule.type == FieldType::kNumber || as_integer(value)) return {};
  constexpr double kInt64Bound = 9223372036854775808.0;
  if (!value.is_double() || std::abs(number) >= kInt64Bound) return out_of_range;
  return invalid(named(rule, value) + " is not exact: integers above 9007199254740992 are written without a fraction or an exponent", field);
}

Status check_field(const FieldRule& rule, const json::value& value, const FieldLimits& limits) {
  if (value.is_null()) return {};
  const std::string field(rule.name);
  if (rule.fate == Fate::kNotBuilt) {
    if (asks_for_nothing(value, rule.nothing)) return {};
    return Error{ErrorCode::kUnsupported, field + ": " + std::string(rule.text), field};
  }
  if (!has_type(value, rule.type)) return invalid(named(rule, value) + " is not " + type_words(rule.type), field);
  QUIRE_RETURN_IF_ERROR(check_items(rule, value));
  return check_range(rule, value, limits);
}

}  // namespace

Status check_fields(const json::object& request, Endpoint endpoint, const FieldLimits& limits) {
  for (const json::key_value_pair& member : request) {
    const FieldRule* rule = find_rule(member.key(), endpoint);
    if (rule == nullptr) {
      QUIRE_LOG_DEBUG("request field '{}' is unknown and ignored", loggable(member.key()));
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

std::optional<bool> read_bool(const json::object& request, std::string_view name) {
  const json::value* value = find_field(request, name);
  if (value == nullptr) return std::nullopt;
  return value->as_bool();
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

text::AddSpecialTokens read_add_special_tokens(const json::object& request, text::AddSpecialTokens absent) {
  const auto asked = read_bool(request, "add_special_tokens");
  if (!asked) return absent;
  return *asked ? text::AddSpecialTokens::kYes : text::AddSpecialTokens::kNo;
}

std::string Place::text() const {
  std::string out(field);
  for (const auto& at : {index, inner})
    if (at) out += "[" + std::to_string(*at) + "]";
  return out;
}

Result<TokenId> read_token_id(const json::value& value, const Place& place, std::int32_t vocab_size) {
  const auto id = as_integer(value);
  if (id && *id >= 0 && *id < vocab_size) return static_cast<TokenId>(*id);
  const std::string field(place.field);
  if (!is_whole(value)) return invalid(place.text() + ": " + shown(value) + " is not a token id", field);
  return invalid(place.text() + ": token id " + (id ? std::to_string(*id) : shown(value)) + " is outside the vocabulary (0 to " + std::to_string(vocab_size - 1) + ")", field);
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

std::optional<double> as_number(const json::value& value) {
  double number = 0;
  if (value.is_double()) number = value.get_double();
  else if (value.is_int64()) number = static_cast<double>(value.get_int64());
  else if (value.is_uint64()) number = static_cast<double>(value.get_uint64());
  else return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
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
