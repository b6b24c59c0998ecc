#include "model/quant_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "base/suggest.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostNames = 100000;

std::string_view view(const json::string& s) { return {s.data(), s.size()}; }

}  // namespace

const json::value* FieldReader::get(std::string_view name) {
  known_.push_back(name);
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

void FieldReader::refuse(std::string_view name, const std::string& only) {
  const json::value* value = get(name);
  findings_.unsupported(path(name) + " = " + (value == nullptr ? "(absent)" : shown(*value)) + " is not implemented (only " + only + ")");
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  const json::value* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (const json::string* s = value->if_string()) return std::string(view(*s));
  findings_.wrong(path(name) + " = " + shown(*value) + " must be a string");
  return std::nullopt;
}

std::optional<bool> FieldReader::flag(std::string_view name) {
  const json::value* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (const bool* b = value->if_bool()) return *b;
  findings_.wrong(path(name) + " = " + shown(*value) + " must be true or false");
  return std::nullopt;
}

const json::object* FieldReader::object(std::string_view name) {
  const json::value* value = get(name);
  if (value == nullptr) return nullptr;
  if (const json::object* o = value->if_object()) return o;
  findings_.wrong(path(name) + " = " + shown(*value) + " must be an object");
  return nullptr;
}

std::vector<std::string> FieldReader::strings(std::string_view name) {
  std::vector<std::string> out;
  const json::value* value = get(name);
  if (value == nullptr) return out;
  const json::array* list = value->if_array();
  if (list == nullptr || list->size() > kMostNames || !std::ranges::all_of(*list, [](const json::value& v) { return v.is_string(); })) {
    findings_.wrong(path(name) + " = " + shown(*value) + " must be a list of strings, at most " + std::to_string(kMostNames));
    return out;
  }
  for (const json::value& v : *list) out.emplace_back(view(v.get_string()));
  return out;
}

void FieldReader::ignore(std::initializer_list<std::string_view> names) { known_.insert(known_.end(), names.begin(), names.end()); }

bool FieldReader::only(std::string_view name, std::initializer_list<std::string_view> allowed) {
  const json::value* value = get(name);
  if (value == nullptr) return true;
  std::string texts = "null";
  for (const std::string_view text : allowed) {
    if (json::parse(json::string_view(text.data(), text.size())) == *value) return true;
    texts += " or " + std::string(text);
  }
  refuse(name, texts);
  return false;
}

void FieldReader::finish() {
  for (const auto& entry : object_) {
    const std::string_view name(entry.key().data(), entry.key().size());
    if (entry.value().is_null() || std::ranges::find(known_, name) != known_.end()) continue;
    findings_.unsupported("unknown field " + shown_text(path(name)) + " = " + shown(entry.value()) + did_you_mean(name, known_) + ", which may change the model's results");
  }
}

void ModuleList::add(const std::string& text, const std::string& path, PatternBudget& budget, Findings& findings) {
  const bool regex = text.starts_with("re:");
  if (!regex && (globs_ == Globs::kNo || text.find_first_of("*?[") == std::string::npos)) {
    names_.insert(text);
    return;
  }
  if (text.size() > budget.bytes) {
    budget.bytes = 0;
    findings.unsupported(path + " holds more than " + std::to_string(PatternBudget().bytes) + " bytes of patterns");
    return;
  }
  budget.bytes -= text.size();
  auto pattern = regex ? NamePattern::regex(std::string_view(text).substr(3)) : NamePattern::glob(text);
  if (pattern.ok())
    patterns_.push_back(std::move(pattern).value());
  else
    findings.unsupported(path + ": " + pattern.error().message);
}

bool ModuleList::holds(std::string_view module) const {
  if (names_.find(module) != names_.end()) return true;
  if (words_ == Words::kPaths)
    for (std::size_t dot = module.find('.'); dot != std::string_view::npos; dot = module.find('.', dot + 1))
      if (names_.find(module.substr(0, dot)) != names_.end() || names_.find(module.substr(dot + 1)) != names_.end()) return true;
  return std::ranges::any_of(patterns_, [module](const NamePattern& p) { return p.matches(module); });
}

ModuleList QuantReading::list(FieldReader& reader, std::string_view name, ModuleList::Words words, ModuleList::Globs globs) {
  ModuleList out(words, globs);
  for (const std::string& text : reader.strings(name)) out.add(text, reader.path(name), budget, findings);
  return out;
}

void QuantReading::fill(QuantSpec& out, const std::function<LinearScheme(const std::string&)>& scheme) const {
  out.layers.assign(static_cast<std::size_t>(num_layers), {});
  for (std::size_t layer = 0; layer < out.layers.size(); ++layer)
    for (std::size_t i = 0; i < kNumLinears; ++i) out.layers[layer][i] = scheme("model.layers." + std::to_string(layer) + "." + std::string(kLinearNames[i]));
}

}  // namespace quire::model
