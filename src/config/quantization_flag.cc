#include "config/quantization_flag.h"

#include <algorithm>

namespace quire::config {
namespace {

constexpr char kFlag[] = "quantization";

Error disagreement(const std::string& asked, const model::QuantSpec& declared) {
  const std::string name(model::quant_method_name(declared.method));
  return Error{ErrorCode::kInvalidArgument, asked + ": the checkpoint is quantised by '" + name + "' (" + declared.declared_by + "); allowed: none (the checkpoint's own), " + name, "--quantization"};
}

const model::QuantMethodRow& row_of(model::QuantMethod method) { return *std::ranges::find(model::quant_methods(), method, &model::QuantMethodRow::method); }

bool made_on_load(const model::QuantMethodRow& row) { return row.on_load.weight != model::WeightScaling::kNone; }

Error not_made_on_load(const std::string& asked) {
  std::string names;
  for (const model::QuantMethodRow& row : model::quant_methods())
    if (made_on_load(row)) names += ", " + std::string(row.name);
  return Error{ErrorCode::kInvalidArgument, asked + ": the checkpoint declares no quantisation, and this one is not made while loading; allowed: none" + names, "--quantization"};
}

model::QuantSpec quantised_while_loading(const model::ModelSpec& model, const model::QuantMethodRow& row, const std::string& asked) {
  model::QuantSpec out;
  out.method = row.method;
  out.declared_by = asked;
  out.on_load = true;
  out.kv = model.quant.kv;
  model::LayerSchemes all;
  all.fill(row.on_load);
  out.layers.assign(static_cast<std::size_t>(model.num_layers), all);
  return out;
}

}  // namespace

Result<model::QuantSpec> resolve_quantization(const Options& options, const model::ModelSpec& model, std::vector<Adjustment>& notes) {
  const model::QuantSpec& declared = model.quant;
  for (const std::string& note : declared.notes) notes.push_back({Adjustment::Severity::kInfo, declared.declared_by, note});
  const std::string word = options.text(kFlag);
  if (word == "gguf" && !model.gguf)
    return Error{ErrorCode::kInvalidArgument, options.spelling(kFlag) + " gguf: MODEL is no GGUF file; allowed: none (the checkpoint's own), a method of docs/QUANTIZATION.md", "--quantization"};
  const auto method = model::quant_method_named(word);
  if (!method || *method == declared.method) return declared;  // none, or what it is
  const std::string asked = options.spelling(kFlag) + " " + quote_value(word);
  if (declared.method != model::QuantMethod::kNone) return disagreement(asked, declared);
  const model::QuantMethodRow& row = row_of(*method);
  if (!made_on_load(row)) return not_made_on_load(asked);
  const char* part = row.on_load.weight == model::WeightScaling::kChannel ? "output" : "projection";
  notes.push_back({Adjustment::Severity::kInfo, options.spelling(kFlag),
                   std::string("the matrices of all linear layers become FP8 while loading, with a scale for each ") + part + "; inputs are quantised per token; embeddings and the output matrix stay as they are"});
  return quantised_while_loading(model, row, asked);
}

}  // namespace quire::config
