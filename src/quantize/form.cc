#include "quantize/form.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>

#include "base/check.h"

namespace quire::quantize {
namespace {

namespace json = boost::json;
using model::InputScaling;
using model::WeightScaling;

constexpr FormRow kForms[] = {
    {Form::kFp8, "fp8", {WeightScaling::kTensor, InputScaling::kStatic}, "weight_scale", "k_proj.output_scale", "v_proj.output_scale", false},
    {Form::kFp8Dynamic, "fp8-dynamic", {WeightScaling::kTensor, InputScaling::kPerToken}, "weight_scale", "k_proj.output_scale", "v_proj.output_scale", false},
    {Form::kFp8Block, "fp8-block", {WeightScaling::kBlock, InputScaling::kPerGroup}, "weight_scale_inv", "k_proj.output_scale", "v_proj.output_scale", false},
    {Form::kCompressedTensors, "compressed-tensors", {WeightScaling::kChannel, InputScaling::kPerToken}, "weight_scale", "k_scale", "v_scale", true},
    {Form::kQuark, "quark", {WeightScaling::kTensor, InputScaling::kStatic}, "weight_scale", "k_proj.output_scale", "v_proj.output_scale", false},
    {Form::kModelOpt, "modelopt", {WeightScaling::kTensor, InputScaling::kStatic}, "weight_scale", "k_proj.k_scale", "v_proj.v_scale", false},
};

constexpr std::string_view kKvNames[] = {"none", "tensor", "head"};  // by KvScales

json::array lm_head() { return {"lm_head"}; }

json::object fp8_config(const FormRow& row, KvScales kv) {
  json::object out{{"quant_method", "fp8"}, {"activation_scheme", row.scheme.input == InputScaling::kStatic ? "static" : "dynamic"}, {"ignored_layers", lm_head()}};
  if (row.scheme.weight == WeightScaling::kBlock) out["weight_block_size"] = json::array{model::kScaleBlock, model::kScaleBlock};
  if (kv != KvScales::kNone) out["kv_cache_scheme"] = "static";
  return out;
}

json::object float8(const char* strategy, bool dynamic) { return {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"strategy", strategy}, {"dynamic", dynamic}}; }

json::object compressed_config(KvScales kv) {
  const json::object group{{"targets", json::array{"Linear"}}, {"weights", float8("channel", false)}, {"input_activations", float8("token", true)}, {"output_activations", nullptr}};
  json::object out{{"quant_method", "compressed-tensors"}, {"format", "float-quantized"}, {"quantization_status", "compressed"}, {"config_groups", {{"group_0", group}}}, {"ignore", lm_head()}};
  out["kv_cache_scheme"] = kv == KvScales::kNone ? json::value(nullptr) : json::value(float8(kv == KvScales::kHead ? "attn_head" : "tensor", false));
  return out;
}

json::object quark_tensor() {
  return {{"dtype", "fp8_e4m3"},   {"qscheme", "per_tensor"},        {"is_dynamic", false}, {"ch_axis", nullptr}, {"group_size", nullptr},
          {"symmetric", true}, {"round_method", "half_even"}, {"scale_type", "float"}, {"observer_cls", "PerTensorMinMaxObserver"}};
}

json::object quark_layer(const json::value& output) {
  return {{"weight", quark_tensor()}, {"input_tensors", quark_tensor()}, {"output_tensors", output}, {"bias", nullptr}, {"target_device", nullptr}};
}

json::object quark_config(KvScales kv) {
  json::object layers;
  json::array group;
  if (kv != KvScales::kNone)
    for (const char* pattern : {"*k_proj", "*v_proj"}) {
      layers[pattern] = quark_layer(quark_tensor());
      group.emplace_back(pattern);
    }
  return {{"quant_method", "quark"},
          {"quant_mode", "eager_mode"},
          {"global_quant_config", quark_layer(nullptr)},
          {"layer_quant_config", std::move(layers)},
          {"layer_type_quant_config", json::object()},
          {"softmax_quant_spec", nullptr},
          {"algo_config", nullptr},
          {"exclude", lm_head()},
          {"export", {{"kv_cache_group", std::move(group)}, {"pack_method", "reorder"}, {"weight_format", "real_quantized"}, {"weight_merge_groups", nullptr}, {"min_kv_scale", 0.0}}}};
}

// ModelOpt spells the same facts differently in its two files, and readers know each file's spelling alone.
json::object modelopt_config(KvScales kv) {
  json::object out{{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", lm_head()}};
  if (kv != KvScales::kNone) out["kv_cache_scheme"] = json::object{{"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
  return out;
}

}  // namespace

std::span<const FormRow> forms() { return kForms; }

const FormRow& form_row(Form form) {
  const auto found = std::ranges::find(kForms, form, &FormRow::form);
  QUIRE_CHECK(found != std::end(kForms));
  return *found;
}

std::optional<Form> form_named(std::string_view name) {
  const auto found = std::ranges::find(kForms, name, &FormRow::name);
  if (found == std::end(kForms)) return std::nullopt;
  return found->form;
}

std::optional<KvScales> kv_scales_named(std::string_view name) {
  const auto found = std::ranges::find(kKvNames, name);
  if (found == std::end(kKvNames)) return std::nullopt;
  return static_cast<KvScales>(found - std::begin(kKvNames));
}

std::string_view kv_scales_name(KvScales kv) { return kKvNames[static_cast<std::size_t>(kv)]; }

Status check_kv(Form form, KvScales kv) {
  const FormRow& row = form_row(form);
  if (kv != KvScales::kHead || row.kv_per_head) return {};
  std::string able;
  for (const FormRow& other : kForms)
    if (other.kv_per_head) able += (able.empty() ? "" : ", ") + std::string(other.name);
  return invalid("--kv head: the form " + std::string(row.name) + " has no words for one KV scale a head; with --format " + able + " it can be had, and --kv tensor with every form", "--kv");
}

json::object quantization_config(Form form, KvScales kv) {
  switch (form) {
    case Form::kFp8:
    case Form::kFp8Dynamic:
    case Form::kFp8Block: return fp8_config(form_row(form), kv);
    case Form::kCompressedTensors: return compressed_config(kv);
    case Form::kQuark: return quark_config(kv);
    case Form::kModelOpt: break;
  }
  return modelopt_config(kv);
}

std::optional<json::object> hf_quant_config(Form form, KvScales kv) {
  if (form != Form::kModelOpt) return std::nullopt;
  return json::object{{"quantization", json::object{{"quant_algo", "FP8"}, {"kv_cache_quant_algo", kv == KvScales::kNone ? json::value(nullptr) : json::value("FP8")}, {"exclude_modules", lm_head()}}}};
}

std::optional<LinearWeight> linear_weight(std::string_view tensor) {
  constexpr std::string_view kPrefix = "model.layers.", kSuffix = ".weight";
  if (!tensor.starts_with(kPrefix) || !tensor.ends_with(kSuffix)) return std::nullopt;
  tensor = tensor.substr(kPrefix.size(), tensor.size() - kPrefix.size() - kSuffix.size());
  LinearWeight out;
  const auto [end, error] = std::from_chars(tensor.data(), tensor.data() + tensor.size(), out.layer);
  const auto digits = static_cast<std::size_t>(end - tensor.data());
  if (error != std::errc() || digits == tensor.size() || tensor[digits] != '.') return std::nullopt;
  out.linear = tensor.substr(digits + 1);
  if (std::ranges::find(model::kLinearNames, out.linear) == model::kLinearNames.end()) return std::nullopt;
  return out;
}

}  // namespace quire::quantize
