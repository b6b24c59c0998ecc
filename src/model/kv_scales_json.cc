#include "model/kv_scales_json.h"

#include <boost/json/array.hpp>
#include <cstdlib>

namespace quire::model {
namespace {

namespace json = boost::json;

// A float32 as the shortest decimal that reads back as the same float32, so that 0.1f is 0.1 to a reader.
double decimal(float x) { return std::strtod(scale_text(x).c_str(), nullptr); }

json::value numbers_json(const std::vector<float>& values) {
  if (values.empty()) return nullptr;
  if (values.size() == 1) return decimal(values[0]);
  json::array out;
  for (const float x : values) out.emplace_back(decimal(x));
  return out;
}

json::value text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return json::string(text);
}

json::object entry_json(const ScaleEntry& e) {
  json::array conversions;
  if (e.doubled_for_fnuz) conversions.emplace_back("fnuz_factor_2");
  if (e.from_single && e.status == ScaleStatus::kApplied) conversions.emplace_back("single_scale_for_both");
  return {{"layer", e.layer},
          {"kind", scale_kind_name(e.kind)},
          {"status", scale_status_name(e.status)},
          {"tensor", text_or_null(e.tensor)},
          {"rule", e.rule == 0 ? json::value(nullptr) : json::value(e.rule)},
          {"raw", numbers_json(e.raw)},
          {"conversions", std::move(conversions)},
          {"in_use", numbers_json(e.in_use)},
          {"reason", text_or_null(e.reason)}};
}

json::array strings(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& s : list) out.emplace_back(s);
  return out;
}

}  // namespace

json::object scale_ledger_json(const ScaleLedger& ledger) {
  json::array entries;
  for (const ScaleEntry& e : ledger.entries) entries.push_back(entry_json(e));
  return {{"kv_cache_dtype", ledger.format_name()},
          {"source", scale_source_name(ledger.source)},
          {"summary", ledger.summary()},
          {"declared_by", ledger.scheme.has_value() ? json::value(json::string(ledger.scheme->declared_by)) : json::value(nullptr)},
          {"num_layers", ledger.num_layers},
          {"num_kv_heads", ledger.num_kv_heads},
          {"warnings", strings(ledger.warnings())},
          {"scales", std::move(entries)}};
}

}  // namespace quire::model
