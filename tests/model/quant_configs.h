// Quantisation configs as exporters write them, for tests.
#pragma once
#include <string>

namespace quire::model::test {

// AMD's first FP8-KV checkpoints, and AutoFP8 with the cache's scheme as an object.
inline constexpr char kFp8Static[] = R"({"activation_scheme": "static", "ignored_layers": ["lm_head"], "kv_cache_scheme": "static", "quant_method": "fp8"})";
inline constexpr char kFp8Dynamic[] = R"({"activation_scheme": "dynamic", "ignored_layers": ["lm_head"], "quant_method": "fp8"})";
inline constexpr char kFp8Block[] =
    R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.layers.1.mlp.down_proj"]})";

// llm-compressor: FP8 (static per tensor), FP8_DYNAMIC (channel and token), FP8_BLOCK, and weights alone.
inline constexpr char kCtStatic[] = R"({"config_groups": {"group_0": {"input_activations": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": null,
  "num_bits": 8, "observer": "minmax", "observer_kwargs": {}, "strategy": "tensor", "symmetric": true, "type": "float"}, "output_activations": null, "targets": ["Linear"],
  "weights": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": null, "num_bits": 8, "observer": "minmax", "observer_kwargs": {}, "strategy": "tensor",
  "symmetric": true, "type": "float"}}}, "format": "float-quantized", "global_compression_ratio": 1.46, "ignore": ["lm_head"], "kv_cache_scheme":
  {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false, "symmetric": true}, "quant_method": "compressed-tensors", "quantization_status": "compressed"})";
inline constexpr char kCtDynamic[] = R"({"config_groups": {"group_0": {"input_activations": {"dynamic": true, "num_bits": 8, "observer": null, "strategy": "token", "symmetric": true,
  "type": "float"}, "output_activations": null, "targets": ["Linear"], "weights": {"dynamic": false, "num_bits": 8, "strategy": "channel", "symmetric": true, "type": "float"}}},
  "format": "float-quantized", "ignore": ["lm_head"], "kv_cache_scheme": null, "quant_method": "compressed-tensors", "quantization_status": "compressed",
  "sparsity_config": {}, "transform_config": {}, "version": "0.12.2"})";
inline constexpr char kCtBlock[] = R"({"config_groups": {"group_0": {"format": "float-quantized", "input_activations": {"dynamic": true, "group_size": 128, "num_bits": 8, "strategy": "group",
  "symmetric": true, "type": "float"}, "output_activations": null, "targets": ["Linear"], "weights": {"block_structure": [128, 128], "dynamic": false, "num_bits": 8,
  "strategy": "block", "symmetric": true, "type": "float"}}}, "format": "float-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"})";
inline constexpr char kCtWeightOnly[] = R"({"config_groups": {"group_0": {"input_activations": null, "output_activations": null, "targets": ["Linear"], "weights":
  {"num_bits": 8, "strategy": "channel", "symmetric": true, "dynamic": false, "type": "float"}}}, "format": "float-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"})";

// Quark, with the KV cache among the outputs of k and v.
inline constexpr char kQuarkTensor[] = R"({"ch_axis": null, "dtype": "fp8_e4m3", "group_size": null, "is_dynamic": false, "observer_cls": "PerTensorMinMaxObserver",
  "qscheme": "per_tensor", "round_method": "half_even", "scale_type": "float", "symmetric": true})";
inline std::string quark_layer(const std::string& weight, const std::string& inputs, const std::string& outputs) {
  return R"({"bias": null, "input_tensors": )" + inputs + R"(, "output_tensors": )" + outputs + R"(, "target_device": null, "weight": )" + weight + "}";
}
inline std::string quark_config(const std::string& global, const std::string& by_name, const std::string& cache_group, const std::string& others = "") {
  return R"({"algo_config": null, "exclude": ["lm_head"], "export": {"kv_cache_group": )" + cache_group +
         R"(, "min_kv_scale": 0.0, "pack_method": "reorder", "weight_format": "real_quantized", "weight_merge_groups": null}, "global_quant_config": )" + global +
         R"(, "kv_cache_post_rope": false, "layer_quant_config": )" + by_name +
         R"(, "layer_type_quant_config": {}, "quant_method": "quark", "quant_mode": "eager_mode", "softmax_quant_spec": null, "version": "0.8")" + others + "}";
}
inline std::string quark_config() {
  const std::string plain = quark_layer(kQuarkTensor, kQuarkTensor, "null"), cached = quark_layer(kQuarkTensor, kQuarkTensor, kQuarkTensor);
  return quark_config(plain, R"({"*k_proj": )" + cached + R"(, "*v_proj": )" + cached + "}", R"(["*k_proj", "*v_proj"])");
}

inline constexpr char kModelOpt[] = R"({"quant_method": "modelopt", "quant_algo": "FP8", "producer": {"name": "modelopt", "version": "0.33.0"}, "ignore": ["lm_head"],
  "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}, "config_groups": {"group_0": {"input_activations": {"dynamic": false, "num_bits": 8, "type": "float"},
  "weights": {"dynamic": false, "num_bits": 8, "type": "float"}, "targets": ["Linear"]}}})";
inline constexpr char kHfQuantConfig[] =
    R"({"producer": {"name": "modelopt", "version": "0.23.0"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head", "model.layers.0.mlp*"]}})";

inline constexpr char kFbgemm[] = R"({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn"]})";
inline constexpr char kPtpc[] = R"({"quant_method": "ptpc_fp8", "activation_scheme": "dynamic"})";

}  // namespace quire::model::test
