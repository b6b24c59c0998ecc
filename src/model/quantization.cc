#include "model/quantization.h"

#include <algorithm>
#include <utility>

namespace quire::model {
namespace {

constexpr QuantMethodRow kMethods[] = {
    {QuantMethod::kFp8, "fp8", "`activation_scheme`, `weight_block_size`, `ignored_layers` or `modules_to_not_convert`, `kv_cache_scheme`", "tensor; 128x128 blocks",
     "static; dynamic (per token, with blocks per 128 columns of a token)", "`weight_scale`, or `weight_scale_inv` of blocks; `input_scale` if static",
     {WeightScaling::kTensor, InputScaling::kPerToken}},
    {QuantMethod::kCompressedTensors, "compressed-tensors", "`format` float-quantized, `config_groups`, `ignore`, `kv_cache_scheme`", "tensor; channel; 128x128 blocks",
     "none; static; dynamic (per token, with blocks per 128 columns of a token)", "`weight_scale`; `input_scale` if static"},
    {QuantMethod::kQuark, "quark", "`global_quant_config`, `layer_quant_config`, `layer_type_quant_config`, `exclude`, `export.kv_cache_group`", "per_tensor; per_channel",
     "static per_tensor; dynamic (per token)", "`weight_scale`; `input_scale` if static"},
    {QuantMethod::kModelOpt, "modelopt", "`quant_algo` FP8, `kv_cache_quant_algo`, `exclude_modules` of `hf_quant_config.json`, or the same in `config.json`", "tensor", "static",
     "`weight_scale`, `input_scale`"},
    {QuantMethod::kFbgemmFp8, "fbgemm_fp8", "`modules_to_not_convert`", "channel", "dynamic (per token)", "`weight_scale`"},
    {QuantMethod::kPtpcFp8, "ptpc_fp8", "`activation_scheme` dynamic, `ignored_layers`", "channel", "dynamic (per token)", "`weight_scale`",
     {WeightScaling::kChannel, InputScaling::kPerToken}},
};

const char* weight_text(WeightScaling scaling) {
  switch (scaling) {
    case WeightScaling::kNone: return "not quantised";
    case WeightScaling::kTensor: return "tensor weights";
    case WeightScaling::kChannel: return "channel weights";
    case WeightScaling::kBlock: return "128x128 block weights";
  }
  return "?";
}

const char* input_text(InputScaling scaling) {
  switch (scaling) {
    case InputScaling::kNone: return "inputs not quantised";
    case InputScaling::kStatic: return "static inputs";
    case InputScaling::kPerToken: return "inputs per token";
    case InputScaling::kPerGroup: return "inputs per 128 columns of a token";
  }
  return "?";
}

}  // namespace

std::span<const QuantMethodRow> quant_methods() { return kMethods; }

std::string_view quant_method_name(QuantMethod method) {
  for (const QuantMethodRow& row : kMethods)
    if (row.method == method) return row.name;
  return "none";
}

std::optional<QuantMethod> quant_method_named(std::string_view name) {
  for (const QuantMethodRow& row : kMethods)
    if (row.name == name) return row.method;
  return std::nullopt;
}

std::string scheme_text(const LinearScheme& scheme) {
  std::string out = weight_text(scheme.weight);
  if (scheme.weight != WeightScaling::kNone) out += std::string(", ") + input_text(scheme.input);
  return out;
}

bool QuantSpec::any_fp8_weight() const {
  return std::ranges::any_of(layers, [](const LayerSchemes& layer) { return std::ranges::any_of(layer, [](const LinearScheme& s) { return s.weight != WeightScaling::kNone; }); });
}

std::string QuantSpec::summary() const {
  if (method == QuantMethod::kNone) return "none";
  std::vector<std::pair<LinearScheme, std::size_t>> kinds;  // in the order of their first layers
  for (const LayerSchemes& layer : layers)
    for (const LinearScheme& scheme : layer) {
      const auto known = std::ranges::find(kinds, scheme, &std::pair<LinearScheme, std::size_t>::first);
      if (known == kinds.end())
        kinds.emplace_back(scheme, 1);
      else
        ++known->second;
    }
  std::string out = std::string(quant_method_name(method)) + (on_load ? ", made while loading: " : ": ");
  if (!any_fp8_weight()) return out + "no linear layer is quantised";
  bool first = true;
  for (const auto& [scheme, count] : kinds) {
    out += (first ? "" : "; ") + std::to_string(count) + (first ? " of " + std::to_string(layers.size() * kNumLinears) + " linear layers: " : ": ") + scheme_text(scheme);
    first = false;
  }
  return out;
}

std::string_view weight_scale_name(QuantMethod method, WeightScaling scaling) {
  return method == QuantMethod::kFp8 && scaling == WeightScaling::kBlock ? "weight_scale_inv" : "weight_scale";
}

}  // namespace quire::model
