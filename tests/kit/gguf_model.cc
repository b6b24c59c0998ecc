#include "kit/gguf_model.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "kit/gguf_encode.h"
#include "model/spec.h"

namespace quire::test {
namespace {

constexpr std::int32_t kNormal = 1, kControl = 3, kUnused = 5;

void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

// Row i and row i + d / 2 of each head become rows 2i and 2i + 1.
std::vector<float> alternating(const std::vector<float>& values, std::int64_t rows, std::int64_t head_dim) {
  const auto columns = static_cast<std::size_t>(static_cast<std::int64_t>(values.size()) / rows);
  std::vector<float> out(values.size());
  for (std::int64_t head = 0; head < rows; head += head_dim)
    for (std::int64_t i = 0; i < head_dim / 2; ++i)
      for (const std::int64_t part : {0, 1}) {
        const auto from = static_cast<std::size_t>(head + part * (head_dim / 2) + i), to = static_cast<std::size_t>(head + 2 * i + part);
        std::memcpy(out.data() + to * columns, values.data() + from * columns, columns * sizeof(float));
      }
  return out;
}

class FileMaker {
 public:
  explicit FileMaker(const GgufModel& model) : model_(model), spec_(model::read_model_spec(model.model_dir).value()), folder_(model::Checkpoint::open(model.model_dir).value()) {}

  std::string make() {
    metadata();
    tokenizer();
    for (const model::ParameterSpec& p : model::parameters_of(spec_)) tensor(p);
    if (model_.more) model_.more(out_);
    return out_.file();
  }

 private:
  [[nodiscard]] bool wanted(const std::string& name) const { return !model_.without.contains(name); }
  void u32(const std::string& key, std::int64_t value) {
    if (wanted(key)) out_.u32(key, static_cast<std::uint32_t>(value));
  }
  void f32(const std::string& key, double value) {
    if (wanted(key)) out_.f32(key, static_cast<float>(value));
  }

  void metadata() {
    if (wanted("general.architecture")) out_.text("general.architecture", arch_);
    out_.text("general.name", "a test").u32("general.quantization_version", 2);
    const std::string at = arch_ + ".";
    u32(at + "block_count", spec_.num_layers);
    u32(at + "context_length", spec_.max_position_embeddings);
    u32(at + "embedding_length", spec_.hidden_size);
    u32(at + "feed_forward_length", spec_.intermediate_size);
    u32(at + "attention.head_count", spec_.num_heads);
    u32(at + "attention.head_count_kv", spec_.num_kv_heads);
    u32(at + "attention.key_length", spec_.head_dim);
    u32(at + "attention.value_length", spec_.head_dim);
    u32(at + "rope.dimension_count", spec_.head_dim);
    u32(at + "vocab_size", spec_.vocab_size);
    f32(at + "rope.freq_base", spec_.rope.theta);
    f32(at + "attention.layer_norm_rms_epsilon", spec_.rms_norm_eps);
    if (spec_.rope.kind == model::RopeKind::kLinear) {
      out_.text(at + "rope.scaling.type", "linear");
      f32(at + "rope.scaling.factor", spec_.rope.factor);
    }
    windows(at);
  }

  void windows(const std::string& at) {
    if (spec_.local_rope) f32(at + "rope.freq_base_swa", spec_.local_rope->theta);
    if (spec_.final_soft_cap > 0) f32(at + "final_logit_softcapping", spec_.final_soft_cap);
    if (spec_.masks.empty()) return;
    if (spec_.masks[0].soft_cap > 0) f32(at + "attn_logit_softcapping", spec_.masks[0].soft_cap);
    if (spec_.masks[0].window > 0) u32(at + "attention.sliding_window", spec_.masks[0].window);
    const auto whole = std::ranges::find(spec_.masks, 0, &model::LayerMask::window);
    if (whole != spec_.masks.end() && whole != spec_.masks.begin()) u32(at + "attention.sliding_window_pattern", whole - spec_.masks.begin() + 1);
  }

  void tokenizer() {
    const auto parsed = parse_json_file(model_.model_dir + "/tokenizer.json");
    if (!parsed.ok()) return;  // the golden models of families have none
    const auto& document = parsed.value();
    std::vector<std::string> tokens(static_cast<std::size_t>(spec_.vocab_size)), merges;
    std::vector<std::int32_t> types(tokens.size(), kUnused);
    for (const auto& [token, id] : document.at("model").at("vocab").as_object()) {
      tokens.at(id.to_number<std::size_t>()) = std::string(token);
      types.at(id.to_number<std::size_t>()) = kNormal;
    }
    for (const auto& added : document.at("added_tokens").as_array()) types.at(added.at("id").to_number<std::size_t>()) = kControl;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].empty()) tokens[i] = "[unused" + std::to_string(i) + "]";
    for (const auto& pair : document.at("model").at("merges").as_array()) merges.push_back(std::string(pair.at(0).as_string()) + " " + std::string(pair.at(1).as_string()));
    out_.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm").texts("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types).texts("tokenizer.ggml.merges", merges);
    u32("tokenizer.ggml.eos_token_id", spec_.eos_token_ids.at(0));
    const auto ends = model::read_generation_defaults(model_.model_dir, spec_.vocab_size).value().eos_token_ids;  // of a text, then of a turn
    if (ends.size() > 1) u32("tokenizer.ggml.eot_token_id", ends[1]);
    u32("tokenizer.ggml.bos_token_id", spec_.bos_token_id.value());
    const auto config = parse_json_file(model_.model_dir + "/tokenizer_config.json").value();
    if (wanted("tokenizer.chat_template")) out_.text("tokenizer.chat_template", std::string(config.at("chat_template").as_string()));
  }

  void tensor(const model::ParameterSpec& p) {
    const std::string name = gguf_name_of(p.name, spec_.branch_norms);
    if (!wanted(name)) return;
    std::vector<float> values = folder_values(folder_, p.name);
    const bool turned = name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos;
    if (name.ends_with("norm.weight"))
      for (float& v : values) v += static_cast<float>(spec_.norm_weight_offset);
    if (turned && arch_ == "llama") values = alternating(values, p.shape[0], spec_.head_dim);
    const std::string type = p.shape.size() == 1 ? "F32" : model_.type_of(name);
    std::vector<std::uint64_t> shape;
    for (auto n = p.shape.rbegin(); n != p.shape.rend(); ++n) shape.push_back(static_cast<std::uint64_t>(*n));
    out_.tensor(name, shape, gguf_type_id(type), gguf_encode(type, values));
  }

  const GgufModel& model_;
  const model::ModelSpec spec_;
  const std::string arch_ = spec_.model_type == "gemma3_text" ? "gemma3" : spec_.model_type == "mistral" ? "llama" : spec_.model_type;
  const model::Checkpoint folder_;
  GgufWriter out_;
};

}  // namespace

GgufModel gguf_model(const std::string& model_dir, const std::string& type) {
  return {.model_dir = model_dir, .type_of = [type](const std::string&) { return type; }};
}

std::string gguf_file_of(const GgufModel& model) { return FileMaker(model).make(); }

std::string gguf_name_of(const std::string& parameter, bool branch_norms) {
  std::string name = parameter;
  replace(name, "post_attention_layernorm.", branch_norms ? "post_attention_norm." : "ffn_norm.");
  for (const auto& [from, to] : {std::pair("model.layers.", "blk."), std::pair("model.embed_tokens.", "token_embd."), std::pair("model.norm.", "output_norm."), std::pair("lm_head.", "output."), std::pair("self_attn.q_proj.", "attn_q."),
                                 std::pair("self_attn.k_proj.", "attn_k."), std::pair("self_attn.v_proj.", "attn_v."), std::pair("self_attn.o_proj.", "attn_output."), std::pair("mlp.gate_proj.", "ffn_gate."), std::pair("mlp.up_proj.", "ffn_up."),
                                 std::pair("mlp.down_proj.", "ffn_down."), std::pair("input_layernorm.", "attn_norm."), std::pair("self_attn.q_norm.", "attn_q_norm."), std::pair("self_attn.k_norm.", "attn_k_norm."),
                                 std::pair("pre_feedforward_layernorm.", "ffn_norm."), std::pair("post_feedforward_layernorm.", "post_ffw_norm.")})
    replace(name, from, to);
  return name;
}

std::vector<float> folder_values(const model::Checkpoint& folder, const std::string& parameter) {
  const model::CheckpointTensor& t = folder.tensors().at(parameter);
  QUIRE_CHECK(t.dtype == "BF16" || t.dtype == "F32") << parameter << " is " << t.dtype;
  const std::size_t width = t.dtype == "F32" ? 4 : 2;
  std::vector<float> out(t.bytes.size() / width);
  for (std::size_t i = 0; i < out.size(); ++i) {
    BFloat16 narrow{};
    if (width == 4)
      std::memcpy(&out[i], t.bytes.data() + 4 * i, 4);
    else
      std::memcpy(&narrow, t.bytes.data() + 2 * i, 2), out[i] = to_float(narrow);
  }
  return out;
}

}  // namespace quire::test
