#include "config/options.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/json.h"
#include "base/text.h"
#include "config/values.h"

namespace quire::config {
namespace {

constexpr JsonLimits kJsonLimits{.max_bytes = 1u << 20, .max_depth = 16};

// A JSON list of strings, or nothing when `text` is not one.
std::optional<std::vector<std::string>> json_strings(std::string_view text) {
  const auto parsed = parse_json(text, kJsonLimits);
  if (!parsed.ok() || !parsed.value().is_array()) return std::nullopt;
  std::vector<std::string> out;
  for (const auto& item : parsed.value().get_array()) {
    if (!item.is_string()) return std::nullopt;
    out.emplace_back(item.get_string());
  }
  return out;
}

bool is_neutral(const FlagRow& row, const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), [&](const std::string& value) {
    if (value == row.fallback || is_word(row.neutral, value)) return true;
    if (row.kind == ValueKind::kFloat) return parse_number(value) == parse_number(row.fallback);
    return row.kind == ValueKind::kInt && parse_integer(value) == parse_integer(row.fallback) && parse_integer(value).has_value();
  });
}

}  // namespace

// Recursion is bounded: both sides passed parse_json's or the dotted path's depth limit.
void merge_json(boost::json::object& into, const boost::json::object& from, ListMerge lists, std::vector<std::string>& replaced) {
  for (const auto& [key, value] : from) {
    auto* existing = into.if_contains(key);
    if (existing == nullptr) {
      into.emplace(key, value);
    } else if (existing->is_object() && value.is_object()) {
      merge_json(existing->get_object(), value.get_object(), lists, replaced);
    } else if (lists == ListMerge::kAppend && existing->is_array() && value.is_array()) {
      for (const auto& item : value.get_array()) existing->get_array().push_back(item);
    } else {
      if (*existing != value) replaced.emplace_back(key);
      *existing = value;
    }
  }
}

const Options::Stored* Options::find(std::string_view name, ValueKind kind) const {
  const FlagRow& row = flag(name);
  QUIRE_CHECK(row.kind == kind || (kind == ValueKind::kText && row.kind != ValueKind::kJson)) << std::string(name) << " is read as another kind";
  const auto found = stored_.find(row.name);
  return found == stored_.end() ? nullptr : &found->second;
}

std::string Options::single(std::string_view name, ValueKind kind) const {
  const Stored* stored = find(name, kind);
  return stored != nullptr && !stored->values.empty() ? stored->values.back() : std::string(flag(name).fallback);
}

bool Options::given(std::string_view name) const { return stored_.contains(flag(name).name); }
bool Options::boolean(std::string_view name) const { return parse_bool(single(name, ValueKind::kBool)).value_or(false); }

std::optional<std::int64_t> Options::integer(std::string_view name) const {
  const std::string value = single(name, ValueKind::kInt);
  return is_word(flag(name).words, value) ? std::nullopt : parse_integer(value);
}

std::optional<double> Options::number(std::string_view name) const { return parse_number(single(name, ValueKind::kFloat)); }
std::string Options::text(std::string_view name) const { return single(name, ValueKind::kText); }

std::optional<std::string> Options::given_text(std::string_view name) const {
  if (!given(name)) return std::nullopt;
  return text(name);
}

std::vector<std::string> Options::list(std::string_view name) const {
  const Stored* stored = find(name, ValueKind::kText);
  if (stored == nullptr) {
    return flag(name).kind == ValueKind::kJsonTextList ? json_strings(flag(name).fallback).value_or(std::vector<std::string>{})
                                                       : std::vector<std::string>{};
  }
  return stored->values;
}

std::vector<std::int64_t> Options::integers(std::string_view name) const {
  std::vector<std::int64_t> out;
  const Stored* stored = find(name, ValueKind::kIntList);
  if (stored == nullptr) return out;
  for (const std::string& value : stored->values) out.push_back(parse_integer(value).value_or(0));
  return out;
}

const boost::json::object& Options::json(std::string_view name) const {
  static const boost::json::object kEmpty;
  const Stored* stored = find(name, ValueKind::kJson);
  return stored == nullptr ? kEmpty : stored->json;
}

std::string Options::spelling(std::string_view name) const {
  const auto found = stored_.find(flag(name).name);
  return found == stored_.end() ? "--" + std::string(name) : found->second.spelling;
}

std::vector<std::pair<std::string, std::string>> Options::non_default_args() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (!model_.empty()) out.emplace_back("model", model_);
  for (const FlagRow* row : flag_table()) {
    const auto found = stored_.find(row->name);
    if (found == stored_.end()) continue;
    const std::string value = row->kind == ValueKind::kJson ? boost::json::serialize(found->second.json) : joined(found->second.values, " ");
    if (value != row->fallback) out.emplace_back(std::string(row->name), row->secret ? "***" : value);
  }
  return out;
}

void Options::assign(const FlagUse& use, std::vector<std::string> values, Problems& problems) {
  const FlagRow& row = use.row;
  const std::string& spelling = use.spelling;
  if (row.kind == ValueKind::kJson) {
    for (const std::string& value : values) {
      auto parsed = parse_json(value, kJsonLimits);
      if (!parsed.ok()) {
        problems.add("--" + std::string(row.name),
                     spelling + " " + quote_value(value) + ": must be a JSON object: " + parsed.error().message);
      } else if (!parsed.value().is_object()) {
        problems.add("--" + std::string(row.name),
                     spelling + " " + quote_value(value) + ": must be a JSON object, e.g. '{\"key\": value}'");
      } else {
        assign_json(use, std::move(parsed.value().get_object()));
      }
    }
    return;
  }
  if (row.kind == ValueKind::kJsonTextList && values.size() == 1 && values.front().starts_with('[')) {
    auto strings = json_strings(values.front());
    if (!strings) {
      problems.add("--" + std::string(row.name), spelling + " " + quote_value(values.front()) + ": must be a JSON list of strings");
      return;
    }
    values = std::move(*strings);
  }
  for (const std::string& value : values) problems.add(check_value(row, spelling, value));
  auto [slot, fresh] = stored_.try_emplace(row.name);
  Stored& stored = slot->second;
  if (!fresh && row.accumulates) {
    stored.values.insert(stored.values.end(), values.begin(), values.end());
    return;
  }
  if (!fresh && stored.values != values) note(Adjustment::Severity::kWarning, spelling, "given more than once; the last value stands");
  stored = Stored{std::move(values), {}, spelling, use.source};
}

void Options::assign_json(const FlagUse& use, boost::json::object fragment, ListMerge lists) {
  auto [slot, fresh] = stored_.try_emplace(use.row.name);
  if (fresh) slot->second.spelling = use.spelling;
  slot->second.source = use.source;
  std::vector<std::string> replaced;
  merge_json(slot->second.json, fragment, lists, replaced);
  for (const std::string& key : replaced)
    note(Adjustment::Severity::kWarning, use.spelling, "key " + quote_value(key) + " given more than once; the last value stands");
}

void Options::note_no_effect() {
  for (const FlagRow* row : flag_table()) {
    const auto found = stored_.find(row->name);
    if (found != stored_.end() && row->fate == Fate::kNoEffect)
      note(Adjustment::Severity::kWarning, found->second.spelling, "has no effect: " + std::string(row->fate_text));
  }
}

std::vector<Error> Options::not_built() const {
  std::vector<Error> out;
  for (const FlagRow* row : flag_table()) {
    const auto found = stored_.find(row->name);
    if (found == stored_.end() || row->fate == Fate::kNoEffect) continue;
    const Stored& stored = found->second;
    const auto wrong = [&](const std::string& v) { return !check_value(*row, stored.spelling, v).ok(); };
    if (std::any_of(stored.values.begin(), stored.values.end(), wrong)) continue;  // told as such, by assign()
    const bool json_asks = row->kind == ValueKind::kJson && !stored.json.empty();
    const bool refused = row->fate == Fate::kNotBuilt && (json_asks || (row->kind != ValueKind::kJson && !is_neutral(*row, stored.values)));
    const bool unbuilt_value =
        std::any_of(stored.values.begin(), stored.values.end(), [&](const std::string& v) { return is_word(row->unbuilt, v); });
    if (!refused && !unbuilt_value) continue;
    const std::string shown = row->kind == ValueKind::kBool || json_asks ? "" : " " + (row->secret ? "***" : quote_value(joined(stored.values, " ")));
    out.push_back(Error{ErrorCode::kUnsupported, stored.spelling + shown + ": " + std::string(row->fate_text) + ": not built yet",
                        "--" + std::string(row->name)});
  }
  return out;
}

void Options::check_fates(Problems& problems) {
  note_no_effect();
  for (Error& error : not_built()) problems.add(std::move(error));
}

}  // namespace quire::config
