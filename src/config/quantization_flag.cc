#include "config/quantization_flag.h"

namespace quire::config {
namespace {

constexpr char kFlag[] = "quantization";

Error disagreement(const std::string& asked, const model::QuantSpec& declared) {
  const std::string name(model::quant_method_name(declared.method));
  return Error{ErrorCode::kInvalidArgument, asked + ": the checkpoint is quantised by '" + name + "' (" + declared.declared_by + "); allowed: none (the checkpoint's own), " + name, "--quantization"};
}

model::QuantSpec quantised_while_loading(const model::ModelSpec& model, const std::string& asked) {
  model::QuantSpec out;
  out.method = model::QuantMethod::kFp8;
  out.declared_by = asked;
  out.on_load = true;
  out.kv = model.quant.kv;
  model::LayerSchemes all;
  all.fill({model::WeightScaling::kTensor, model::InputScaling::kPerToken});
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
  if (*method != model::QuantMethod::kFp8)
    return Error{ErrorCode::kInvalidArgument, asked + ": the checkpoint declares no quantisation, and only fp8 is made while loading; allowed: none, fp8", "--quantization"};
  notes.push_back({Adjustment::Severity::kInfo, options.spelling(kFlag),
                   "the matrices of all linear layers become FP8 while loading, with a scale for each projection; inputs are quantised per token; embeddings and the output matrix stay as they are"});
  return quantised_while_loading(model, asked);
}

}  // namespace quire::config
