#include "model/kv_scheme.h"

#include <boost/json/value.hpp>
#include <string_view>
#include <vector>

#include "base/suggest.h"
#include "model/json_fields.h"

namespace quire::model {
namespace {

namespace json = boost::json;

// A key of the object and what it may say; null counts as absent.
struct SchemeField {
  std::string_view name;
  bool (*holds)(const json::value& value);
  std::string_view allowed;
};

bool is_text(const json::value& v, std::string_view text) { return v.is_string() && std::string_view(v.get_string().data(), v.get_string().size()) == text; }
bool never(const json::value&) { return false; }
bool whatever(const json::value&) { return true; }

// The compressed-tensors object, and the part of it that ModelOpt writes. How a scale was observed does not matter once it is there.
constexpr SchemeField kFields[] = {
    {"num_bits", [](const json::value& v) { return exact_integer(v) == 8; }, "8"},
    {"type", [](const json::value& v) { return is_text(v, "float"); }, "\"float\""},
    {"strategy", [](const json::value& v) { return is_text(v, "tensor") || is_text(v, "attn_head"); }, "\"tensor\" or \"attn_head\""},
    {"dynamic", [](const json::value& v) { return v.is_bool() && !v.get_bool(); }, "false"},
    {"symmetric", [](const json::value& v) { return v.is_bool() && v.get_bool(); }, "true"},
    {"group_size", never, "null"},
    {"block_structure", never, "null"},
    {"actorder", never, "null"},
    {"zp_dtype", never, "null"},
    {"scale_dtype", whatever, ""},
    {"observer", whatever, ""},
    {"observer_kwargs", whatever, ""},
};

void check_field(const std::string& field, std::string_view name, const json::value& value, Findings& findings) {
  std::vector<std::string_view> names;
  for (const SchemeField& known : kFields) {
    names.push_back(known.name);
    if (known.name != name) continue;
    if (!value.is_null() && !known.holds(value))
      findings.unsupported(field + "." + std::string(name) + " = " + shown(value) + " is not implemented (only " + std::string(known.allowed) + ")");
    return;
  }
  findings.unsupported("unknown field " + shown_text(field + "." + std::string(name)) + " = " + shown(value) + did_you_mean(name, names));
}

}  // namespace

std::optional<KvScheme> parse_kv_cache_scheme(const json::value& value, const std::string& field, Findings& findings) {
  if (value.is_null()) return std::nullopt;
  if (is_text(value, "static")) return KvScheme{KvScheme::Granularity::kTensor, field + " = \"static\""};
  const json::object* scheme = value.if_object();
  if (scheme == nullptr) {
    findings.unsupported(field + " = " + shown(value) + " is not implemented (null, \"static\" or an object)");
    return std::nullopt;
  }
  for (const auto& entry : *scheme) check_field(field, {entry.key().data(), entry.key().size()}, entry.value(), findings);
  const json::value* type = scheme->if_contains("type");
  if (type == nullptr || type->is_null()) findings.unsupported(field + ".type is missing, and means integers then (only \"float\" is implemented)");
  const json::value* strategy = scheme->if_contains("strategy");
  const bool per_head = strategy != nullptr && is_text(*strategy, "attn_head");
  return KvScheme{per_head ? KvScheme::Granularity::kHead : KvScheme::Granularity::kTensor, field + ".strategy = " + (per_head ? "\"attn_head\"" : "\"tensor\"")};
}

}  // namespace quire::model
