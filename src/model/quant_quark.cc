// Quark: one scheme for the whole model, others by name pattern or by layer type, and the KV cache's among the outputs of k and v.
#include <algorithm>
#include <boost/json/array.hpp>
#include <optional>

#include "model/quant_fields.h"

namespace quire::model {
namespace {

namespace json = boost::json;

// A tensor's spec, as far as it matters.
struct TensorSpec {
  std::string qscheme;
  bool dynamic = false;
  bool by_rows = true;  // ch_axis is 0, or not given
};

// nullopt: a finding was added.
std::optional<TensorSpec> read_tensor(const json::object& object, const std::string& path, Findings& findings) {
  FieldReader reader(object, path, findings);
  reader.ignore({"observer_cls", "round_method"});
  const json::value* axis = reader.get("ch_axis");
  const auto dtype = reader.text("dtype");
  const auto qscheme = reader.text("qscheme");
  const auto dynamic = reader.flag("is_dynamic");
  bool good = reader.only("group_size") && reader.only("symmetric", {"true"}) && reader.only("scale_type", {"\"float\"", "\"float32\""});
  good = reader.only("scale_format", {"\"float32\""}) && reader.only("scale_calculation_mode") && reader.only("mx_element_dtype") && reader.only("is_scale_quant", {"false"}) && good;
  if (dtype != "fp8_e4m3") reader.refuse("dtype", "\"fp8_e4m3\"");
  if (qscheme != "per_tensor" && qscheme != "per_channel") reader.refuse("qscheme", "\"per_tensor\" or \"per_channel\"");
  reader.finish();
  if (!good || dtype != "fp8_e4m3" || (qscheme != "per_tensor" && qscheme != "per_channel")) return std::nullopt;
  return TensorSpec{*qscheme, dynamic.value_or(false), axis == nullptr || *axis == 0};
}

enum class Outputs : std::uint8_t {
  kRefused,
  kOfCache,  // those of k and v (and q) say how the cache is stored, and nothing about the layer
};

// global_quant_config, and every entry of the two tables.
LinearScheme read_layer(const json::object& object, const std::string& path, Outputs outputs, QuantSpec& out, Findings& findings) {
  FieldReader reader(object, path, findings);
  reader.ignore({"target_device"});
  const json::object* weight = reader.object("weight");
  const json::object* input = reader.object("input_tensors");
  if (outputs == Outputs::kOfCache)
    reader.ignore({"output_tensors"});
  else
    reader.only("output_tensors");
  reader.only("bias");
  reader.finish();
  if (weight == nullptr || input == nullptr) {
    findings.unsupported(path + ": weight and input_tensors must both be fp8_e4m3; they are " + (weight == nullptr ? "null" : "quantised") + " and " + (input == nullptr ? "null" : "quantised"));
    return {};
  }
  const auto w = read_tensor(*weight, reader.path("weight"), findings);
  const auto x = read_tensor(*input, reader.path("input_tensors"), findings);
  if (!w || !x) return {};
  if (w->qscheme == "per_channel" && !w->by_rows) {
    findings.unsupported(path + ".weight.ch_axis: channels of a weight are its outputs, axis 0; other axes are not implemented");
    return {};
  }
  if (w->dynamic || (!x->dynamic && x->qscheme != "per_tensor")) {
    findings.unsupported(path + ": weight = " + shown(*weight) + " with input_tensors = " + shown(*input) +
                         " is not implemented (only static per_tensor or per_channel weights, with inputs that are dynamic or static per_tensor)");
    return {};
  }
  if (x->dynamic && x->qscheme == "per_tensor" && out.notes.empty()) out.notes.emplace_back(kDynamicTensorNote);
  return {w->qscheme == "per_tensor" ? WeightScaling::kTensor : WeightScaling::kChannel, x->dynamic ? InputScaling::kPerToken : InputScaling::kStatic};
}

// The entries of layer_quant_config that export.kv_cache_group names: equal to each other, with outputs that are the cache's scheme.
void read_cache(const std::vector<std::string>& group, const json::object* by_name, const json::object* cache, FieldReader& top, QuantSpec& out) {
  Findings& findings = top.findings();
  const json::value* first = nullptr;
  for (const std::string& pattern : group) {
    const json::value* entry = by_name == nullptr ? nullptr : by_name->if_contains(pattern);
    if (entry == nullptr) return findings.wrong(top.path("export.kv_cache_group") + " names " + shown_text(pattern) + ", which is no key of layer_quant_config");
    if (first != nullptr && *first != *entry)
      return findings.wrong(top.path("layer_quant_config") + ": the entries that export.kv_cache_group names (" + shown_text(group.front()) + ", " + shown_text(pattern) + ") differ");
    if (first == nullptr) first = entry;
  }
  const json::object* layer = first->if_object();
  const json::value* outputs = layer == nullptr ? nullptr : layer->if_contains("output_tensors");
  const json::object* spec = outputs == nullptr ? nullptr : outputs->if_object();
  const std::string path = top.path("layer_quant_config") + "." + group.front() + ".output_tensors";
  if (spec == nullptr || spec->empty()) return findings.wrong(path + " is empty, and export.kv_cache_group makes it the KV cache's");
  const auto read = read_tensor(*spec, path, findings);
  if (!read) return;
  if (read->dynamic || read->qscheme != "per_tensor")
    return findings.unsupported(path + " = " + shown(*outputs) + " is not implemented for a KV cache (only static fp8_e4m3 per_tensor)");
  // Said a second time, it must be the same.
  for (const auto& entry : cache == nullptr ? json::object() : *cache) {
    const json::object* again = entry.value().if_object();
    const json::value* said = again == nullptr ? nullptr : again->if_contains("output_tensors");
    if (said == nullptr || *said != *outputs)
      return findings.wrong(top.path("kv_cache_quant_config") + "." + std::string(entry.key()) + ": its output_tensors are not those of " + path);
  }
  out.kv = KvScheme{KvScheme::Granularity::kTensor, top.path("export.kv_cache_group")};
}

struct NamedScheme {
  NamePattern pattern;
  LinearScheme scheme;
};

std::vector<NamedScheme> read_named(QuantReading& reading, const json::object& by_name, const std::vector<std::string>& cache_group, const std::string& path, QuantSpec& out) {
  std::vector<NamedScheme> named;
  for (const auto& entry : by_name) {
    const std::string name(entry.key().data(), entry.key().size()), at = path + "." + name;
    const bool of_cache = !cache_group.empty() && (name == "*q_proj" || std::ranges::find(cache_group, name) != cache_group.end());
    const json::object* layer = entry.value().if_object();
    auto pattern = name.size() > reading.budget.bytes ? Result<NamePattern>(Error{ErrorCode::kUnsupported, "too many bytes of patterns", {}}) : NamePattern::glob(name);
    if (layer == nullptr || !pattern.ok()) {
      reading.findings.unsupported(at + (layer == nullptr ? " = " + shown(entry.value()) + " must be an object" : ": " + pattern.error().message));
      continue;
    }
    reading.budget.bytes -= name.size();
    named.push_back({std::move(pattern).value(), read_layer(*layer, at, of_cache ? Outputs::kOfCache : Outputs::kRefused, out, reading.findings)});
  }
  return named;
}

// Algorithms that changed the weights before they were written, and nothing afterwards.
void check_algorithms(FieldReader& reader, Findings& findings) {
  static constexpr std::string_view kOffline[] = {"smooth", "smoothquant", "autosmoothquant", "awq", "gptq"};
  const json::value* value = reader.get("algo_config");
  if (value == nullptr) return;
  const json::array* list = value->if_array();
  const auto offline = [](const json::value& one) {
    const json::object* algorithm = one.if_object();
    const json::value* name = algorithm == nullptr ? nullptr : algorithm->if_contains("name");
    return name != nullptr && name->is_string() && std::ranges::find(kOffline, std::string_view(name->get_string().data(), name->get_string().size())) != std::end(kOffline);
  };
  if (list == nullptr || !std::ranges::all_of(*list, offline))
    findings.unsupported(reader.path("algo_config") + " = " + shown(*value) + " is not implemented (only algorithms that end with the weights: smooth, smoothquant, autosmoothquant, awq, gptq)");
}

// What `export` says about the cache; every weight must be in its quantised form.
std::vector<std::string> read_export(FieldReader& top, Findings& findings) {
  const json::object* object = top.object("export");
  if (object == nullptr) {
    if (top.get("export") == nullptr) findings.wrong(top.path("export") + " is missing");
    return {};
  }
  FieldReader reader(*object, top.path("export"), findings);
  reader.only("weight_format", {"\"real_quantized\""});
  reader.ignore({"pack_method", "weight_merge_groups", "min_kv_scale"});
  auto group = reader.strings("kv_cache_group");
  reader.finish();
  return group;
}

}  // namespace

void read_quark(QuantReading& reading, QuantSpec& out) {
  FieldReader reader = reading.reader();
  reader.ignore({"quant_method", "quant_mode", "version", "kv_cache_post_rope"});
  reader.only("softmax_quant_spec");
  check_algorithms(reader, reading.findings);
  const auto cache_group = read_export(reader, reading.findings);
  const json::object* by_name = reader.object("layer_quant_config");
  const json::object* by_type = reader.object("layer_type_quant_config");
  const json::object* global = reader.object("global_quant_config");
  const json::object* cache = reader.object("kv_cache_quant_config");
  if (cache_group.empty() && cache != nullptr && !cache->empty())
    reading.findings.wrong(reader.path("kv_cache_quant_config") + " quantises the KV cache, and export.kv_cache_group is empty");
  if (!cache_group.empty()) read_cache(cache_group, by_name, cache, reader, out);
  const auto named = by_name == nullptr ? std::vector<NamedScheme>() : read_named(reading, *by_name, cache_group, reader.path("layer_quant_config"), out);
  std::optional<LinearScheme> otherwise;
  const json::object* of_linear = nullptr;
  if (by_type != nullptr) {
    FieldReader types(*by_type, reader.path("layer_type_quant_config"), reading.findings);
    of_linear = types.object("Linear");
    types.finish();
  }
  if (of_linear != nullptr)
    otherwise = read_layer(*of_linear, reader.path("layer_type_quant_config.Linear"), Outputs::kRefused, out, reading.findings);
  else if (global != nullptr)
    otherwise = read_layer(*global, reader.path("global_quant_config"), Outputs::kRefused, out, reading.findings);
  if (!otherwise) reading.findings.wrong(reader.path("global_quant_config") + " is missing");
  const ModuleList excluded = reading.list(reader, "exclude", ModuleList::Words::kExact, ModuleList::Globs::kYes);
  reader.finish();
  reading.fill(out, [&](const std::string& module) {
    if (excluded.holds(module)) return LinearScheme{};
    for (const NamedScheme& n : named)
      if (n.pattern.matches(module)) return n.scheme;
    return otherwise.value_or(LinearScheme{});
  });
}

}  // namespace quire::model
