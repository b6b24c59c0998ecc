// compressed-tensors: groups of modules, each with arguments for its weights and its inputs.
#include <boost/json/array.hpp>
#include <optional>

#include "model/kv_scheme.h"
#include "model/quant_fields.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr char kClass[] = "Linear";  // of every module here

struct Group {
  std::string name;
  ModuleList by_name{ModuleList::Words::kExact, ModuleList::Globs::kNo};
  bool by_class = false;
  LinearScheme scheme;
};

// The fields that weights and inputs share, but strategy and dynamic.
void check_arguments(FieldReader& args, std::initializer_list<std::string_view> group_sizes) {
  if (args.get("num_bits") == nullptr || args.get("type") == nullptr)
    args.findings().wrong(args.path("num_bits") + " and type must be there");
  args.only("num_bits", {"8"});
  args.only("type", {"\"float\""});
  args.only("symmetric", {"true"});
  args.only("group_size", group_sizes);
  args.only("actorder");
  args.only("zp_dtype");
  args.ignore({"observer", "observer_kwargs", "scale_dtype"});
}

WeightScaling read_weights(const json::object& object, const std::string& path, Findings& findings) {
  FieldReader args(object, path, findings);
  check_arguments(args, {});
  args.only("dynamic", {"false"});
  const std::string strategy = args.text("strategy").value_or("tensor");
  WeightScaling scaling = WeightScaling::kTensor;
  if (strategy == "channel")
    scaling = WeightScaling::kChannel;
  else if (strategy == "block")
    scaling = WeightScaling::kBlock;
  else if (strategy != "tensor")
    args.refuse("strategy", "\"tensor\", \"channel\" or \"block\"");
  if (scaling == WeightScaling::kBlock && args.get("block_structure") == nullptr) findings.wrong(args.path("block_structure") + " is missing (only [128, 128] is implemented)");
  if (scaling == WeightScaling::kBlock)
    args.only("block_structure", {"[128, 128]", "\"128x128\""});
  else
    args.only("block_structure");
  args.finish();
  return scaling;
}

InputScaling read_inputs(const json::object& object, const std::string& path, QuantSpec& out, Findings& findings) {
  FieldReader args(object, path, findings);
  check_arguments(args, {"128"});
  args.only("block_structure");
  const std::string strategy = args.text("strategy").value_or("tensor");
  const bool dynamic = args.flag("dynamic").value_or(false);
  args.finish();
  if (strategy == "group" && args.get("group_size") == nullptr) findings.wrong(args.path("group_size") + " is missing (only 128 is implemented)");
  if (strategy == "group" && dynamic) return InputScaling::kPerGroup;
  if (strategy == "tensor" && !dynamic) return InputScaling::kStatic;
  if (strategy == "tensor" && dynamic && out.notes.empty()) out.notes.emplace_back(kDynamicTensorNote);
  if (!(dynamic && (strategy == "token" || strategy == "tensor")))
    args.refuse("strategy", std::string("\"tensor\" or, with dynamic true, \"token\" or \"group\"; dynamic is ") + (dynamic ? "true" : "false"));
  return InputScaling::kPerToken;
}

Group read_group(const std::string& name, const json::object& object, const std::string& path, QuantReading& reading, QuantSpec& out) {
  Group group{.name = name};
  FieldReader reader(object, path, reading.findings);
  reader.only("format", {"\"float-quantized\"", "\"naive-quantized\""});
  if (reader.get("targets") == nullptr) reading.findings.wrong(reader.path("targets") + " is missing");
  for (const std::string& target : reader.strings("targets")) {
    if (target == kClass)
      group.by_class = true;
    else
      group.by_name.add(target, reader.path("targets"), reading.budget, reading.findings);
  }
  if (const json::object* weights = reader.object("weights")) group.scheme.weight = read_weights(*weights, reader.path("weights"), reading.findings);
  if (const json::object* inputs = reader.object("input_activations")) group.scheme.input = read_inputs(*inputs, reader.path("input_activations"), out, reading.findings);
  reader.only("output_activations");
  reader.finish();
  const bool blocks = group.scheme.weight == WeightScaling::kBlock, groups = group.scheme.input == InputScaling::kPerGroup;
  if (group.scheme.weight == WeightScaling::kNone)
    reading.findings.unsupported(path + " quantises no weights, which is not implemented");
  else if (blocks != groups && !(blocks && group.scheme.input == InputScaling::kNone))
    reading.findings.unsupported(path + ": " + scheme_text(group.scheme) + " is not implemented (block weights go with inputs in groups of 128 or none, other weights with other inputs)");
  return group;
}

// A name says more than a class. Two groups that claim one module in different ways are a finding.
const Group* group_of(const std::vector<Group>& groups, const std::string& module, Findings& findings) {
  const Group* named = nullptr;
  const Group* classed = nullptr;
  for (const Group& g : groups) {
    const Group*& place = g.by_name.holds(module) ? named : classed;
    if (&place == &classed && !g.by_class) continue;
    if (place == nullptr)
      place = &g;
    else if (place->scheme != g.scheme && findings.empty())
      findings.wrong("config_groups " + place->name + " and " + g.name + " both claim " + module + ", in different ways");
  }
  return named != nullptr ? named : classed;
}

// Every module is matched against every group. Files have one to three.
constexpr std::size_t kMostGroups = 64;

}  // namespace

void read_compressed_tensors(QuantReading& reading, QuantSpec& out) {
  FieldReader reader = reading.reader();
  reader.ignore({"quant_method", "version", "global_compression_ratio"});
  if (reader.get("format") == nullptr) reading.findings.wrong(reader.path("format") + " is missing");
  reader.only("format", {"\"float-quantized\"", "\"naive-quantized\"", "\"mixed-precision\""});  // the last: each group has its own
  reader.only("quantization_status", {"\"compressed\"", "\"frozen\""});
  reader.only("sparsity_config", {"{}", R"({"format":"dense"})"});
  reader.only("transform_config", {"{}"});
  if (const json::value* kv = reader.get("kv_cache_scheme")) out.kv = parse_kv_cache_scheme(*kv, reader.path("kv_cache_scheme"), reading.findings);
  std::vector<Group> groups;
  if (const json::object* object = reader.object("config_groups"); object != nullptr && object->size() > kMostGroups) {
    reading.findings.wrong(reader.path("config_groups") + " has " + std::to_string(object->size()) + " groups; at most " + std::to_string(kMostGroups) + " are read");
  } else if (object != nullptr) {
    for (const auto& entry : *object) {
      const std::string name(entry.key().data(), entry.key().size()), path = reader.path("config_groups") + "." + name;
      if (const json::object* group = entry.value().if_object())
        groups.push_back(read_group(name, *group, path, reading, out));
      else
        reading.findings.wrong(path + " = " + shown(entry.value()) + " must be an object");
    }
  } else if (reader.get("config_groups") == nullptr) {
    reading.findings.wrong(reader.path("config_groups") + " is missing");
  }
  const std::vector<std::string> words = reader.strings("ignore");
  bool ignore_class = false;
  ModuleList ignored(ModuleList::Words::kExact, ModuleList::Globs::kNo);
  for (const std::string& word : words) {
    ignore_class = ignore_class || word == kClass;
    ignored.add(word, reader.path("ignore"), reading.budget, reading.findings);
  }
  reader.finish();
  reading.fill(out, [&](const std::string& module) {
    if (ignore_class || ignored.holds(module)) return LinearScheme{};
    const Group* group = group_of(groups, module, reading.findings);
    return group == nullptr ? LinearScheme{} : group->scheme;
  });
}

}  // namespace quire::model
