#include "config/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/checked.h"
#include "base/suggest.h"
#include "base/text.h"
#include "config/problems.h"

namespace quire::config {
namespace {

std::optional<std::int64_t> scale_of(char suffix) {
  switch (suffix) {
    case 'k': return 1'000;
    case 'm': return 1'000'000;
    case 'g': return 1'000'000'000;
    case 't': return 1'000'000'000'000;
    case 'K': return std::int64_t{1} << 10;
    case 'M': return std::int64_t{1} << 20;
    case 'G': return std::int64_t{1} << 30;
    case 'T': return std::int64_t{1} << 40;
    default: return std::nullopt;
  }
}

std::optional<std::int64_t> plain_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "25.6" times `scale`, exact or nothing. Digits after the point are at most 12, so that the arithmetic stays in 64 bits.
std::optional<std::int64_t> scaled_decimal(std::string_view text, std::int64_t scale) {
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) {
    const auto whole = plain_integer(text);
    return whole ? checked_mul(*whole, scale) : std::nullopt;
  }
  const std::string_view fraction = text.substr(point + 1);
  if (fraction.empty() || fraction.size() > 12 || !std::all_of(fraction.begin(), fraction.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const auto whole = plain_integer(text.substr(0, point));
  const auto part = plain_integer(fraction);
  if (!whole || !part || *whole < 0 || text.front() == '-') return std::nullopt;
  std::int64_t denominator = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) denominator *= 10;
  const auto product = checked_mul(*part, scale);
  const auto base = checked_mul(*whole, scale);
  if (!product || !base || *product % denominator != 0) return std::nullopt;
  return checked_add(*base, *product / denominator);
}

struct NumberRange {
  double lo = -HUGE_VAL, hi = HUGE_VAL;
};

// "lo..hi"; an end that is left out stays the type's own.
template <class Range, class Parse>
Range range_of(std::string_view allowed, Parse parse) {
  Range range;
  const std::size_t dots = allowed.find("..");
  if (dots == std::string_view::npos) return range;
  if (const auto lo = parse(allowed.substr(0, dots))) range.lo = *lo;
  if (const auto hi = parse(allowed.substr(dots + 2))) range.hi = *hi;
  return range;
}

std::string range_text(std::string_view allowed) {
  const std::size_t dots = allowed.find("..");
  if (dots == std::string_view::npos) return {};
  const std::string lo(allowed.substr(0, dots)), hi(allowed.substr(dots + 2));
  if (hi.empty()) return " of at least " + lo;
  return " from " + lo + " to " + hi;
}

bool value_fits(const FlagRow& row, std::string_view text) {
  switch (row.kind) {
    case ValueKind::kBool: return parse_bool(text).has_value();
    case ValueKind::kInt:
    case ValueKind::kIntList: {
      if (is_word(row.words, text)) return true;
      const auto value = parse_integer(text);
      if (row.sampling != nullptr) return value && row.sampling->takes(static_cast<double>(*value));
      const IntRange range = int_range(row.allowed);
      return value && *value >= range.lo && *value <= range.hi;
    }
    case ValueKind::kFloat: {
      if (is_word(row.words, text)) return true;
      const auto value = parse_number(text);
      if (row.sampling != nullptr) return value && row.sampling->takes(*value);
      const NumberRange range = range_of<NumberRange>(row.allowed, parse_number);
      return value && *value >= range.lo && *value <= range.hi;
    }
    case ValueKind::kChoice:
    case ValueKind::kText:
    case ValueKind::kTextList: return !text.empty() && (row.allowed.empty() || is_word(row.allowed, text));
    case ValueKind::kJson:
    case ValueKind::kJsonTextList: return true;
  }
  return false;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (const auto scale = scale_of(text.back())) return scaled_decimal(text.substr(0, text.size() - 1), *scale);
  return plain_integer(text);
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

IntRange int_range(std::string_view allowed) { return range_of<IntRange>(allowed, plain_integer); }

bool is_word(std::string_view words, std::string_view text, char separator) {
  const auto list = split_words(words, separator);
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string allowed_text(const FlagRow& row) {
  std::string out;
  if (row.sampling != nullptr) return std::string(row.sampling->text);
  switch (row.kind) {
    case ValueKind::kBool: return "true or false";
    case ValueKind::kInt:
    case ValueKind::kIntList: out = "an integer" + range_text(row.allowed); break;
    case ValueKind::kFloat: out = "a number" + range_text(row.allowed); break;
    case ValueKind::kJson: return "a JSON object";
    case ValueKind::kJsonTextList: return "a list of strings, as JSON or as they are";
    case ValueKind::kChoice:
    case ValueKind::kText:
    case ValueKind::kTextList:
      if (row.allowed.empty()) return "text";
      out = "one of";
      for (std::string_view word : split_words(row.allowed)) out += (out == "one of" ? " " : ", ") + std::string(word);
      break;
  }
  for (std::string_view word : split_words(row.words)) out += ", or " + std::string(word);
  return out;
}

Status check_value(const FlagRow& row, std::string_view spelling, std::string_view text) {
  if (value_fits(row, text)) return {};
  const std::string shown = row.secret && !text.empty() ? "(hidden)" : quote_value(text);
  const bool any_text = row.allowed.empty() && (row.kind == ValueKind::kText || row.kind == ValueKind::kTextList);  // but not none
  std::string message = std::string(spelling) + " " + shown + ": must " + (any_text ? "not be empty" : "be " + allowed_text(row));
  if (row.kind != ValueKind::kInt && row.kind != ValueKind::kFloat && !row.allowed.empty()) message += did_you_mean(text, split_words(row.allowed));
  return invalid(std::move(message), "--" + std::string(row.name));
}

}  // namespace quire::config
