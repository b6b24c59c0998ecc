// What the readers of every quantisation method share: an object of the config whose fields are all accounted for, and lists of modules.
// Internal to model/.
#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/json_fields.h"
#include "model/name_pattern.h"
#include "model/quantization.h"

namespace quire::model {

// One object being read. A field that is asked for is known; null counts as absent; whatever nobody asked for is a finding in finish().
class FieldReader {
 public:
  // `path` begins every message: "quantization_config.config_groups.group_0".
  FieldReader(const boost::json::object& object, std::string path, Findings& findings) : object_(object), path_(std::move(path)), findings_(findings) {}

  [[nodiscard]] const boost::json::value* get(std::string_view name);
  // nullopt: absent, or not of this kind, which is a finding.
  [[nodiscard]] std::optional<std::string> text(std::string_view name);
  [[nodiscard]] std::optional<bool> flag(std::string_view name);
  [[nodiscard]] const boost::json::object* object(std::string_view name);
  // At most 100,000 strings.
  [[nodiscard]] std::vector<std::string> strings(std::string_view name);
  // Of no consequence, whatever they say.
  void ignore(std::initializer_list<std::string_view> names);
  // Absent, null, or one of `allowed` (JSON texts); else a finding. False: a finding was added.
  bool only(std::string_view name, std::initializer_list<std::string_view> allowed = {});
  // A finding for each field that nobody asked for.
  void finish();

  [[nodiscard]] std::string path(std::string_view name) const { return path_ + "." + std::string(name); }
  [[nodiscard]] Findings& findings() const { return findings_; }
  // "path.name = value is not implemented (only ...)"
  void refuse(std::string_view name, const std::string& only);

 private:
  const boost::json::object& object_;
  std::string path_;
  Findings& findings_;
  std::vector<std::string_view> known_;
};

// How much pattern text one config may hold: bounds the time that matching takes.
struct PatternBudget {
  std::size_t bytes = 8192;
};

// Modules by name: "lm_head", "model.layers.0.self_attn.q_proj", "re:.*mlp.*", "*.o_proj".
class ModuleList {
 public:
  enum class Words : std::uint8_t {
    kExact,  // plain words are whole names
    kPaths,  // ... or a name's beginning or end at a dot: "model.layers.0", "o_proj"
  };
  enum class Globs : std::uint8_t { kNo, kYes };
  ModuleList(Words words, Globs globs) : words_(words), globs_(globs) {}

  // A pattern that cannot be read is a finding at `path`.
  void add(const std::string& text, const std::string& path, PatternBudget& budget, Findings& findings);
  [[nodiscard]] bool holds(std::string_view module) const;

 private:
  Words words_;
  Globs globs_;
  std::set<std::string, std::less<>> names_;
  std::vector<NamePattern> patterns_;
};

// One quantization_config being read.
struct QuantReading {
  const boost::json::object& config;
  std::string field;  // "quantization_config"
  std::int32_t num_layers = 0;
  Findings& findings;
  PatternBudget budget = {};

  [[nodiscard]] FieldReader reader() { return {config, field, findings}; }
  [[nodiscard]] ModuleList list(FieldReader& reader, std::string_view name, ModuleList::Words words, ModuleList::Globs globs);
  // A scheme for every linear layer of every decoder layer, by its name in the checkpoint.
  void fill(QuantSpec& out, const std::function<LinearScheme(const std::string& module)>& scheme) const;
};

// The methods. Each reads `reading.config` whole into `out`.
void read_fp8(QuantReading& reading, QuantSpec& out);
void read_channel_fp8(QuantReading& reading, QuantSpec& out);  // fbgemm_fp8, ptpc_fp8
void read_compressed_tensors(QuantReading& reading, QuantSpec& out);
void read_quark(QuantReading& reading, QuantSpec& out);
void read_modelopt(QuantReading& reading, QuantSpec& out);
// hf_quant_config.json: `reading.config` is the whole file.
void read_hf_quant_config(QuantReading& reading, QuantSpec& out);

// Words of QuantSpec::notes for inputs that a checkpoint wants quantised per tensor, by what the running batch holds.
inline constexpr char kDynamicTensorNote[] = "dynamic per-tensor inputs are quantised per token: a row's result must not depend on its batch";

}  // namespace quire::model
