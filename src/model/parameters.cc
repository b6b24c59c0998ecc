// The parameter list of the Llama layer walk, in the names of Hugging Face checkpoints.
#include <string>

#include "model/checkpoint.h"

namespace quire::model {
namespace {

// A linear layer of the walk: weight [out, in], and bias [out] where the config says so.
void add_linear(std::vector<ParameterSpec>& out, const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
  out.push_back({name + ".weight", {rows, columns}});
  if (bias) out.push_back({name + ".bias", {rows}});
}

}  // namespace

std::vector<ParameterSpec> parameters_of(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, intermediate = spec.intermediate_size;
  const std::int64_t q_rows = std::int64_t{spec.num_heads} * spec.head_dim, kv_rows = std::int64_t{spec.num_kv_heads} * spec.head_dim;
  std::vector<ParameterSpec> out;
  out.push_back({"model.embed_tokens.weight", {spec.vocab_size, hidden}});
  for (std::int32_t i = 0; i < spec.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    out.push_back({layer + ".input_layernorm.weight", {hidden}});
    add_linear(out, layer + ".self_attn.q_proj", q_rows, hidden, spec.attention_bias);
    add_linear(out, layer + ".self_attn.k_proj", kv_rows, hidden, spec.attention_bias);
    add_linear(out, layer + ".self_attn.v_proj", kv_rows, hidden, spec.attention_bias);
    add_linear(out, layer + ".self_attn.o_proj", hidden, q_rows, spec.attention_bias);
    out.push_back({layer + ".post_attention_layernorm.weight", {hidden}});
    add_linear(out, layer + ".mlp.gate_proj", intermediate, hidden, spec.mlp_bias);
    add_linear(out, layer + ".mlp.up_proj", intermediate, hidden, spec.mlp_bias);
    add_linear(out, layer + ".mlp.down_proj", hidden, intermediate, spec.mlp_bias);
  }
  out.push_back({"model.norm.weight", {hidden}});
  if (!spec.tie_word_embeddings) out.push_back({"lm_head.weight", {spec.vocab_size, hidden}});
  return out;
}

}  // namespace quire::model
