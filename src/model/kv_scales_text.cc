// The ledger for people.
#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/text.h"
#include "kv/store/kv_format.h"
#include "model/kv_scales.h"

namespace quire::model {
namespace {

std::string count_of(std::size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

bool of_cache(const ScaleEntry& e) { return e.kind == ScaleKind::kKey || e.kind == ScaleKind::kValue; }

// Layers of which both scales hold.
template <class Holds>
std::size_t layers_where(const ScaleLedger& ledger, Holds holds) {
  std::vector<int> found(static_cast<std::size_t>(ledger.num_layers), 0);
  for (const ScaleEntry& e : ledger.entries)
    if (of_cache(e) && holds(e)) ++found[static_cast<std::size_t>(e.layer)];
  return static_cast<std::size_t>(std::ranges::count(found, 2));
}

// "rule 7", "rules 3 and 6"
std::string rules_text(const ScaleLedger& ledger) {
  std::set<std::int32_t> rules;
  for (const ScaleEntry& e : ledger.entries)
    if (of_cache(e) && e.rule != 0) rules.insert(e.rule);
  std::string text = rules.size() == 1 ? "rule " : "rules ";
  for (auto it = rules.begin(); it != rules.end(); ++it) text += (it == rules.begin() ? "" : std::next(it) == rules.end() ? " and " : ", ") + std::to_string(*it);
  return text;
}

std::string applied_text(const ScaleLedger& ledger) {
  const std::size_t from_checkpoint = layers_where(ledger, [](const ScaleEntry& e) { return e.status == ScaleStatus::kApplied; });
  std::string text = "keys and values of " + std::to_string(from_checkpoint) + " of " + count_of(static_cast<std::size_t>(ledger.num_layers), "layer") + " from the checkpoint (" + rules_text(ledger) + ")";
  const auto any = [&](auto holds) { return std::ranges::any_of(ledger.entries, [&](const ScaleEntry& e) { return e.status == ScaleStatus::kApplied && holds(e); }); };
  if (any([](const ScaleEntry& e) { return e.in_use.size() > 1; })) text += ", one for each KV head";
  if (any([](const ScaleEntry& e) { return e.from_single; })) text += ", a single scale used for both";
  if (any([](const ScaleEntry& e) { return e.doubled_for_fnuz; })) text += ", factor 2 for FNUZ applied";
  return text;
}

std::string conversion_text(const ScaleEntry& e) {
  if (e.status != ScaleStatus::kApplied) return "-";
  std::string text = e.doubled_for_fnuz ? "x 2 (FNUZ)" : "";
  if (e.from_single) text += text.empty() ? "k = v" : ", k = v";
  return text.empty() ? "none" : text;
}

}  // namespace

std::string scale_text(float x) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x);
  return {text.data(), end.ptr};
}

std::string scale_text(const std::vector<float>& values) {
  if (values.empty()) return "-";
  if (values.size() == 1) return scale_text(values[0]);
  const auto [least, most] = std::ranges::minmax(values);
  return scale_text(least) + " to " + scale_text(most) + " (" + std::to_string(values.size()) + " heads)";
}

const char* scale_status_name(ScaleStatus status) {
  switch (status) {
    case ScaleStatus::kApplied: return "applied";
    case ScaleStatus::kNotApplied: return "present, not applied";
    case ScaleStatus::kDefault: return "default";
    case ScaleStatus::kForced: return "forced";
    case ScaleStatus::kCalculated: return "calculated";
    case ScaleStatus::kNone: return "none";
  }
  return "?";
}

const char* scale_source_name(ScaleSource source) {
  switch (source) {
    case ScaleSource::kUnquantised: return "none";
    case ScaleSource::kCheckpoint: return "checkpoint";
    case ScaleSource::kPartly: return "partly";
    case ScaleSource::kCalculated: return "calculated";
    case ScaleSource::kForced: return "forced";
    case ScaleSource::kDefault: return "default";
  }
  return "?";
}

std::string calculation_without_effect(DType kv_dtype) {
  if (kv_dtype == DType::kFp8E4m3 || kv_dtype == DType::kFp8E4m3Fnuz) return {};
  return std::string("the KV cache is ") + dtype_name(kv_dtype) + (is_fp8(kv_dtype) ? ", whose scales are 1" : ", which has no scales");
}

std::string ScaleLedger::format_name() const { return kv::kv_format_name(kv::kv_format_of(kv_dtype).value_or(kv::KvFormat::kOther)); }

std::string ScaleLedger::summary() const {
  std::string text = format_name() + ": ";
  switch (source) {
    case ScaleSource::kUnquantised: text += "no scales"; break;
    case ScaleSource::kCheckpoint: text += applied_text(*this); break;
    case ScaleSource::kPartly: text += applied_text(*this) + "; what is missing there serves with the layer's other scale, or with 1"; break;
    case ScaleSource::kCalculated: text += "scales of all " + count_of(static_cast<std::size_t>(num_layers), "layer") + (pending() ? " are calculated" : " calculated") + " at start on the built-in text"; break;
    case ScaleSource::kForced: text += "scales of 1, as the format has it"; break;
    case ScaleSource::kDefault: text += "scales of 1: the checkpoint has none"; break;
  }
  const auto unused = static_cast<std::size_t>(std::ranges::count(entries, ScaleStatus::kNotApplied, &ScaleEntry::status));
  if (unused > 0) text += "; " + count_of(unused, "scale") + " of the checkpoint present, not applied";
  return text;
}

std::vector<std::string> ScaleLedger::warnings() const {
  std::vector<std::string> out;
  if (source == ScaleSource::kDefault)
    out.push_back("FP8 KV cache (" + format_name() + ") without scales: " + (scheme.has_value() ? scheme->declared_by + " declares them, and " : std::string()) +
                  "the checkpoint has none, so keys and values are stored with scale 1; answers may be worse than with a 16-bit cache");
  if (!calculation_unused.empty()) out.push_back("--calculate-kv-scales has no effect: " + calculation_unused);
  for (const std::string& text : softened) out.push_back("--relaxed kv-scales: " + text);
  return out;
}

std::string scale_ledger_text(const ScaleLedger& ledger) {
  std::string out = "KV scales  " + ledger.summary() + "\n";
  std::vector<std::array<std::string, 7>> rows = {{"layer", "kind", "in use", "status", "conversion", "rule", "tensor"}};
  for (const ScaleEntry& e : ledger.entries) {
    if (e.tensor.empty() && (e.status != ScaleStatus::kCalculated || e.in_use.empty()) && (ledger.source != ScaleSource::kPartly || e.in_use.empty())) continue;
    const std::string from = e.tensor.empty() ? "-" : e.tensor + " = " + scale_text(e.raw);
    rows.push_back({std::to_string(e.layer), scale_kind_name(e.kind), scale_text(e.in_use), scale_status_name(e.status), conversion_text(e), e.rule == 0 ? "-" : std::to_string(e.rule),
                    from + (e.reason.empty() ? "" : " (" + e.reason + ")")});
  }
  if (rows.size() == 1) return out;
  std::array<std::size_t, 7> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    out += "  ";
    for (std::size_t i = 0; i + 1 < row.size(); ++i) out += left_aligned(row[i], widths[i] + 2);
    out += row.back() + "\n";
  }
  return out;
}

}  // namespace quire::model
