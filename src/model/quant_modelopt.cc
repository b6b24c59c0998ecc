// ModelOpt: in hf_quant_config.json beside config.json, or inside config.json in the same words or in those of compressed-tensors.
#include <boost/json/array.hpp>

#include "model/kv_scheme.h"
#include "model/quant_fields.h"

namespace quire::model {
namespace {

namespace json = boost::json;

// FP8, or nothing. True: quantised.
bool read_algorithm(FieldReader& reader, std::string_view name) {
  const json::value* value = reader.get(name);
  return value != nullptr && reader.only(name, {"\"FP8\""});
}

// The modules that stay as they are, under either name.
ModuleList excluded_modules(QuantReading& reading, FieldReader& reader) {
  const char* const name = reader.get("exclude_modules") != nullptr ? "exclude_modules" : "ignore";
  if (reader.get("exclude_modules") != nullptr && reader.get("ignore") != nullptr && *reader.get("exclude_modules") != *reader.get("ignore"))
    reading.findings.wrong(reader.path("exclude_modules") + " and ignore differ, and mean the same");
  return reading.list(reader, name, ModuleList::Words::kPaths, ModuleList::Globs::kYes);
}

void check_tensor(const json::object& object, const std::string& path, Findings& findings) {
  FieldReader reader(object, path, findings);
  reader.only("num_bits", {"8"});
  reader.only("type", {"\"float\""});
  reader.only("dynamic", {"false"});
  reader.only("strategy", {"\"tensor\""});
  reader.only("symmetric", {"true"});
  reader.only("group_size");
  reader.finish();
}

// The groups repeat what quant_algo says.
void check_groups(const json::object& groups, const std::string& path, Findings& findings) {
  for (const auto& entry : groups) {
    const std::string at = path + "." + std::string(entry.key().data(), entry.key().size());
    const json::object* group = entry.value().if_object();
    if (group == nullptr) {
      findings.wrong(at + " = " + shown(entry.value()) + " must be an object");
      continue;
    }
    FieldReader reader(*group, at, findings);
    reader.only("targets", {R"(["Linear"])"});
    for (const char* name : {"weights", "input_activations"})
      if (const json::object* tensor = reader.object(name)) check_tensor(*tensor, reader.path(name), findings);
    reader.only("output_activations");
    reader.finish();
  }
}

// `reader` is where quant_algo stands.
void read_fields(QuantReading& reading, FieldReader& reader, QuantSpec& out) {
  out.method = QuantMethod::kModelOpt;
  reader.only("group_size");
  reader.only("has_zero_point", {"false"});
  reader.only("pre_quant_scale", {"false"});
  reader.only("quantized_layers");
  const bool quantised = read_algorithm(reader, "quant_algo");
  if (read_algorithm(reader, "kv_cache_quant_algo")) out.kv = KvScheme{KvScheme::Granularity::kTensor, reader.path("kv_cache_quant_algo") + " = \"FP8\""};
  if (const json::value* kv = reader.get("kv_cache_scheme")) {
    const auto scheme = parse_kv_cache_scheme(*kv, reader.path("kv_cache_scheme"), reading.findings);
    if (!out.kv) out.kv = scheme;
  }
  const ModuleList excluded = excluded_modules(reading, reader);
  reading.fill(out, [&](const std::string& module) {
    return !quantised || excluded.holds(module) ? LinearScheme{} : LinearScheme{WeightScaling::kTensor, InputScaling::kStatic};
  });
}

// The object that holds quant_algo, when it stands one level down.
const json::object* nested(FieldReader& reader) { return reader.object("quantization"); }

}  // namespace

void read_modelopt(QuantReading& reading, QuantSpec& out) {
  FieldReader reader = reading.reader();
  reader.ignore({"quant_method", "producer"});
  if (const json::object* inner = nested(reader)) {
    FieldReader fields(*inner, reader.path("quantization"), reading.findings);
    read_fields(reading, fields, out);
    fields.finish();
  } else {
    read_fields(reading, reader, out);
    if (const json::object* groups = reader.object("config_groups")) check_groups(*groups, reader.path("config_groups"), reading.findings);
  }
  reader.finish();
}

void read_hf_quant_config(QuantReading& reading, QuantSpec& out) {
  FieldReader reader = reading.reader();
  reader.ignore({"producer"});
  out.declared_by = reading.field + ": quantization.quant_algo";
  const json::object* inner = nested(reader);
  reader.finish();
  if (inner == nullptr) return reading.findings.wrong(reading.field + " has no object named quantization");
  FieldReader fields(*inner, reading.field + ".quantization", reading.findings);
  read_fields(reading, fields, out);
  fields.finish();
}

}  // namespace quire::model
