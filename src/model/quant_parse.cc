// Which method a checkpoint names, and the methods whose config is a few fields.
#include "model/quant_parse.h"

#include "base/suggest.h"
#include "base/text.h"
#include "model/kv_scheme.h"
#include "model/quant_fields.h"

namespace quire::model {
namespace {

namespace json = boost::json;

// "fp8, compressed-tensors, ..."
std::string known_methods() {
  std::string out;
  for (const QuantMethodRow& row : quant_methods()) out += (out.empty() ? "" : ", ") + std::string(row.name);
  return out;
}

QuantMethod read_method(FieldReader& reader, Findings& findings) {
  auto name = reader.text("quant_method");
  if (!name) {
    if (reader.get("quant_method") == nullptr) findings.wrong(reader.path("quant_method") + " is missing (implemented: " + known_methods() + ")");
    return QuantMethod::kNone;
  }
  *name = lower(*name);
  if (const auto method = quant_method_named(*name)) return *method;
  std::vector<std::string_view> names;
  for (const QuantMethodRow& row : quant_methods()) names.push_back(row.name);
  findings.unsupported(reader.path("quant_method") + " = " + shown_text(*name) + " is not implemented (implemented: " + known_methods() + ")" + did_you_mean(*name, names));
  return QuantMethod::kNone;
}

void read_method_config(QuantReading& reading, QuantSpec& out) {
  switch (out.method) {
    case QuantMethod::kNone: return;
    case QuantMethod::kFp8: return read_fp8(reading, out);
    case QuantMethod::kCompressedTensors: return read_compressed_tensors(reading, out);
    case QuantMethod::kQuark: return read_quark(reading, out);
    case QuantMethod::kModelOpt: return read_modelopt(reading, out);
    case QuantMethod::kFbgemmFp8:
    case QuantMethod::kPtpcFp8: return read_channel_fp8(reading, out);
  }
}

// Layers that are one multiplication here. One finding for all of them.
constexpr std::pair<LinearKind, LinearKind> kFused[] = {{LinearKind::kQ, LinearKind::kK}, {LinearKind::kQ, LinearKind::kV}, {LinearKind::kGate, LinearKind::kUp}};
void check_fused(const QuantSpec& spec, Findings& findings) {
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer)
    for (const auto& [a, b] : kFused) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      const LayerSchemes& s = spec.layers[layer];
      if (s[i] == s[j]) continue;
      findings.unsupported("model.layers." + std::to_string(layer) + ": " + std::string(kLinearNames[i]) + " (" + scheme_text(s[i]) + ") and " + std::string(kLinearNames[j]) + " (" +
                           scheme_text(s[j]) + ") are multiplied together and must be quantised alike");
      return;
    }
}

// The two lists that mean the same.
ModuleList ignored_modules(QuantReading& reading, FieldReader& reader) {
  const bool both = reader.get("ignored_layers") != nullptr && reader.get("modules_to_not_convert") != nullptr;
  if (both && *reader.get("ignored_layers") != *reader.get("modules_to_not_convert"))
    reading.findings.wrong(reader.path("ignored_layers") + " and modules_to_not_convert differ, and mean the same");
  return reading.list(reader, reader.get("ignored_layers") != nullptr ? "ignored_layers" : "modules_to_not_convert", ModuleList::Words::kPaths, ModuleList::Globs::kNo);
}

// [128, 128], or nothing. False: a finding was added.
bool read_block_size(FieldReader& reader, bool& blocks) {
  const json::value* size = reader.get("weight_block_size");
  blocks = size != nullptr;
  return reader.only("weight_block_size", {"[128, 128]"});
}

}  // namespace

void read_fp8(QuantReading& reading, QuantSpec& out) {
  FieldReader reader = reading.reader();
  reader.ignore({"quant_method"});
  const auto activations = reader.text("activation_scheme");
  const bool is_static = activations == "static";
  if (!is_static && activations != "dynamic") reader.refuse("activation_scheme", "\"static\" or \"dynamic\"");
  bool blocks = false;
  if (read_block_size(reader, blocks) && blocks && is_static)
    reading.findings.unsupported(reader.path("weight_block_size") + " with activation_scheme \"static\" is not implemented (blocks of weights need \"dynamic\")");
  const ModuleList ignored = ignored_modules(reading, reader);
  reader.only("fmt", {"\"e4m3\""});
  reader.only("scale_fmt", {"\"float\""});
  reader.only("dequantize", {"false"});
  if (const json::value* kv = reader.get("kv_cache_scheme")) out.kv = parse_kv_cache_scheme(*kv, reader.path("kv_cache_scheme"), reading.findings);
  reader.finish();
  const LinearScheme scheme = blocks ? LinearScheme{WeightScaling::kBlock, InputScaling::kPerGroup}
                                     : LinearScheme{WeightScaling::kTensor, is_static ? InputScaling::kStatic : InputScaling::kPerToken};
  reading.fill(out, [&](const std::string& module) { return ignored.holds(module) ? LinearScheme{} : scheme; });
}

void read_channel_fp8(QuantReading& reading, QuantSpec& out) {
  FieldReader reader = reading.reader();
  reader.ignore({"quant_method"});
  reader.only("activation_scheme", {"\"dynamic\""});
  reader.only("activation_scale_ub");  // clips activations, which the linear operation has no word for
  const ModuleList ignored = ignored_modules(reading, reader);
  reader.finish();
  reading.fill(out, [&](const std::string& module) { return ignored.holds(module) ? LinearScheme{} : LinearScheme{WeightScaling::kChannel, InputScaling::kPerToken}; });
}

QuantSpec parse_quantization(const json::object& config, const json::object* hf_quant, std::int32_t num_layers, Findings& findings) {
  QuantSpec out;
  const json::object* found = nullptr;
  std::string field;
  for (const char* name : {"quantization_config", "compression_config"}) {
    const json::value* value = config.if_contains(name);
    if (value == nullptr || value->is_null()) continue;
    if (found != nullptr) findings.wrong(field + " and " + name + " are both there; one says how the weights are quantised");
    field = name;
    found = value->if_object();
    if (found == nullptr) findings.wrong(field + " = " + shown(*value) + " must be an object");
  }
  if (found != nullptr) {
    QuantReading reading{*found, field, num_layers, findings};
    FieldReader reader = reading.reader();
    out.method = read_method(reader, findings);
    out.declared_by = "config.json: " + field + ".quant_method";
    read_method_config(reading, out);
  }
  if (hf_quant != nullptr) {
    QuantSpec beside;
    QuantReading reading{*hf_quant, "hf_quant_config.json", num_layers, findings};
    read_hf_quant_config(reading, beside);
    if (found == nullptr)
      out = std::move(beside);
    else if (findings.empty() && (out.method != beside.method || out.layers != beside.layers || out.kv.has_value() != beside.kv.has_value() || (out.kv && out.kv->granularity != beside.kv->granularity)))
      findings.wrong(field + " (" + out.summary() + (out.kv ? ", FP8 KV cache" : "") + ") and hf_quant_config.json (" + beside.summary() + (beside.kv ? ", FP8 KV cache" : "") +
                     ") say different things");
  }
  check_fused(out, findings);
  return out;
}

}  // namespace quire::model
