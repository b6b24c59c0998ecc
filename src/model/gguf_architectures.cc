#include "model/gguf_architectures.h"

#include <algorithm>
#include <array>

namespace quire::model {
namespace {

using Fate = GgufKeyFate;

// Keys that mean the same wherever they stand.
constexpr std::array kSharedKeys = {
    GgufKey{"block_count", Fate::kRequired, "num_hidden_layers"},
    GgufKey{"context_length", Fate::kRequired, "max_position_embeddings"},
    GgufKey{"embedding_length", Fate::kRequired, "hidden_size"},
    GgufKey{"feed_forward_length", Fate::kRequired, "intermediate_size"},
    GgufKey{"attention.head_count", Fate::kRequired, "num_attention_heads"},
    GgufKey{"attention.head_count_kv", Fate::kField, "num_key_value_heads"},
    GgufKey{"attention.layer_norm_rms_epsilon", Fate::kRequired, "rms_norm_eps"},
    GgufKey{"attention.key_length", Fate::kField, "head_dim"},
    GgufKey{"attention.value_length", Fate::kHeadDim},
    GgufKey{"rope.dimension_count", Fate::kHeadDim},
    GgufKey{"rope.freq_base", Fate::kField, "rope_theta"},
    GgufKey{"rope.scaling.type", Fate::kRope},
    GgufKey{"rope.scaling.factor", Fate::kRope},
    GgufKey{"rope.scaling.original_context_length", Fate::kRope},
    GgufKey{"rope.scaling.yarn_beta_fast", Fate::kRope},
    GgufKey{"rope.scaling.yarn_beta_slow", Fate::kRope},
    GgufKey{"rope.scaling.finetuned", Fate::kIgnorable},
    GgufKey{"vocab_size", Fate::kField, "vocab_size"},

    GgufKey{"rope.scaling.attn_factor", Fate::kNeutral, {}, "[1]"},
    GgufKey{"rope.scaling.yarn_attn_factor", Fate::kNeutral, {}, "[1]"},
    GgufKey{"rope.scaling.yarn_ext_factor", Fate::kNeutral, {}, "[1]"},
    GgufKey{"rope.scale_linear", Fate::kNeutral, {}, "[0, 1]"},
    GgufKey{"attention.causal", Fate::kNeutral, {}, "[true]"},
    GgufKey{"attention.max_alibi_bias", Fate::kNeutral, {}, "[0]"},
    GgufKey{"attention.clamp_kqv", Fate::kNeutral, {}, "[0]"},
    GgufKey{"use_parallel_residual", Fate::kNeutral, {}, "[false]"},
    GgufKey{"expert_count", Fate::kNeutral, {}, "[0]"},
    GgufKey{"expert_used_count", Fate::kNeutral, {}, "[0]"},
    GgufKey{"logit_scale", Fate::kNeutral, {}, "[1]"},
    GgufKey{"embedding_scale", Fate::kNeutral, {}, "[1]"},
    GgufKey{"residual_scale", Fate::kNeutral, {}, "[1]"},
    GgufKey{"nextn_predict_layers", Fate::kNeutral, {}, "[0]"},
};

constexpr std::array kLlamaKeys = {
    GgufKey{"attention.sliding_window", Fate::kWindow, "sliding_window"},
    GgufKey{"tensor_data_layout", Fate::kIgnorable},  // where the converter found the weights
};

constexpr std::array kQwenKeys = {GgufKey{"attention.sliding_window", Fate::kNeutral, {}, "[0]"}};

constexpr std::array kGemma2Keys = {
    GgufKey{"attention.sliding_window", Fate::kWindow, "sliding_window"},
    GgufKey{"attention.sliding_window_pattern", Fate::kLayerWindows, "sliding_window_pattern"},
    GgufKey{"attn_logit_softcapping", Fate::kField, "attn_logit_softcapping"},
    GgufKey{"final_logit_softcapping", Fate::kField, "final_logit_softcapping"},
    GgufKey{"rope.freq_base_swa", Fate::kNeutral, {}, "[10000]"},
};

constexpr std::array kGemma3Keys = {
    GgufKey{"attention.sliding_window", Fate::kWindow, "sliding_window"},
    GgufKey{"attention.sliding_window_pattern", Fate::kLayerWindows, "sliding_window_pattern"},
    GgufKey{"final_logit_softcapping", Fate::kField, "final_logit_softcapping"},
    GgufKey{"rope.freq_base_swa", Fate::kField, "rope_local_base_freq"},
};

constexpr std::array kSharedTensors = {
    GgufTensorName{"model.embed_tokens", "token_embd"}, GgufTensorName{"model.norm", "output_norm"},      GgufTensorName{"lm_head", "output"},
    GgufTensorName{"input_layernorm", "attn_norm"},     GgufTensorName{"self_attn.q_proj", "attn_q"},     GgufTensorName{"self_attn.k_proj", "attn_k"},
    GgufTensorName{"self_attn.v_proj", "attn_v"},       GgufTensorName{"self_attn.o_proj", "attn_output"}, GgufTensorName{"mlp.gate_proj", "ffn_gate"},
    GgufTensorName{"mlp.up_proj", "ffn_up"},            GgufTensorName{"mlp.down_proj", "ffn_down"},
};

constexpr std::array kLlamaTensors = {GgufTensorName{"post_attention_layernorm", "ffn_norm"}};
constexpr std::array kLlamaFlags = {GgufFlagTensor{"blk.0.attn_q.bias", "attention_bias"}, GgufFlagTensor{"blk.0.ffn_gate.bias", "mlp_bias"}};

constexpr GgufTensorName kQNorm{"self_attn.q_norm", "attn_q_norm"}, kKNorm{"self_attn.k_norm", "attn_k_norm"};
constexpr std::array kQwen3Tensors = {GgufTensorName{"post_attention_layernorm", "ffn_norm"}, kQNorm, kKNorm};
constexpr std::array kQwen3Flags = {GgufFlagTensor{"blk.0.attn_q.bias", "attention_bias"}};
constexpr std::array kGemma2Tensors = {GgufTensorName{"post_attention_layernorm", "post_attention_norm"}, GgufTensorName{"pre_feedforward_layernorm", "ffn_norm"},
                                       GgufTensorName{"post_feedforward_layernorm", "post_ffw_norm"}};
constexpr std::array kGemma3Tensors = {kGemma2Tensors[0], kGemma2Tensors[1], kGemma2Tensors[2], kQNorm, kKNorm};

constexpr std::array kArchitectures = {
    GgufArchitecture{.name = "llama", .architecture = "LlamaForCausalLM", .model_type = "llama", .qk_rows = GgufQkRows::kAlternating, .keys = kLlamaKeys, .tensors = kLlamaTensors, .flags = kLlamaFlags,
                     .windowed_architecture = "MistralForCausalLM", .windowed_model_type = "mistral"},
    GgufArchitecture{.name = "qwen2", .architecture = "Qwen2ForCausalLM", .model_type = "qwen2", .keys = kQwenKeys, .tensors = kLlamaTensors},
    GgufArchitecture{.name = "qwen3", .architecture = "Qwen3ForCausalLM", .model_type = "qwen3", .keys = kQwenKeys, .tensors = kQwen3Tensors, .flags = kQwen3Flags},
    GgufArchitecture{.name = "gemma2", .architecture = "Gemma2ForCausalLM", .model_type = "gemma2", .keys = kGemma2Keys, .tensors = kGemma2Tensors, .wide_scalar_layers = 46},
    GgufArchitecture{.name = "gemma3", .architecture = "Gemma3ForCausalLM", .model_type = "gemma3_text", .keys = kGemma3Keys, .tensors = kGemma3Tensors, .absent_window_is_none = true, .wide_scalar_layers = 62},
};

// "model.layers.12.rest" -> "12", "rest"; false: no tensor of a layer.
bool split_layer(std::string_view name, std::string_view& layer, std::string_view& rest) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  name.remove_prefix(kLayers.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  layer = name.substr(0, dot);
  rest = name.substr(dot + 1);
  return true;
}

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return kArchitectures; }
std::span<const GgufKey> gguf_shared_keys() { return kSharedKeys; }
std::span<const GgufTensorName> gguf_shared_tensors() { return kSharedTensors; }

const GgufArchitecture* gguf_architecture(std::string_view name) {
  const auto* found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  return found == kArchitectures.end() ? nullptr : found;
}

const GgufArchitecture* gguf_architecture_of(std::string_view architecture) {
  const auto* found = std::ranges::find_if(kArchitectures, [&](const GgufArchitecture& a) { return a.architecture == architecture || (!architecture.empty() && a.windowed_architecture == architecture); });
  return found == kArchitectures.end() ? nullptr : found;
}

std::string gguf_tensor_name(const GgufArchitecture& architecture, std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string_view stem = parameter.substr(0, dot), layer, rest;
  const bool in_layer = split_layer(stem, layer, rest);
  if (in_layer) stem = rest;
  for (const auto names : {architecture.tensors, std::span<const GgufTensorName>(kSharedTensors)})
    for (const GgufTensorName& row : names)
      if (row.ours == stem) return (in_layer ? "blk." + std::string(layer) + "." : std::string()) + std::string(row.gguf) + std::string(parameter.substr(dot));
  return {};
}

}  // namespace quire::model
