#include "model/families.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>

#include "model/json_fields.h"

namespace quire::model {
namespace {

constexpr std::array kMistralFields = {consumed_field("sliding_window"), consumed_field("layer_types"), neutral_field("attention_bias", "[false]"), neutral_field("mlp_bias", "[false]")};

// use_sliding_window false makes the other two mean nothing, whatever they hold.
constexpr std::array kQwen2Fields = {consumed_field("sliding_window"), consumed_field("use_sliding_window"), consumed_field("max_window_layers"), consumed_field("layer_types"),
                                     neutral_field("attention_bias", "[true]"), neutral_field("qkv_bias", "[true]"), neutral_field("mlp_bias", "[false]"), neutral_field("use_mrope", "[false]")};
constexpr std::array kQwen3Fields = {consumed_field("sliding_window"), consumed_field("use_sliding_window"), consumed_field("max_window_layers"), consumed_field("layer_types"),
                                     neutral_field("mlp_bias", "[false]"), neutral_field("use_qk_norm", "[true]"), neutral_field("qk_norm", "[true]")};

constexpr std::string_view kGelu = R"(["gelu_pytorch_tanh"])";
constexpr std::array kGemma2Fields = {neutral_field("hidden_act", kGelu), neutral_field("hidden_activation", kGelu), neutral_field("mlp_bias", "[false]"),
                                      consumed_field("sliding_window"), consumed_field("layer_types"), neutral_field("sliding_window_pattern", "[2]"), neutral_field("_sliding_window_pattern", "[2]"),
                                      consumed_field("attn_logit_softcapping"), consumed_field("final_logit_softcapping"), consumed_field("query_pre_attn_scalar")};
constexpr std::array kGemma3Fields = {neutral_field("hidden_act", kGelu), neutral_field("hidden_activation", kGelu), neutral_field("mlp_bias", "[false]"),
                                      consumed_field("sliding_window"), consumed_field("layer_types"), consumed_field("sliding_window_pattern"), consumed_field("_sliding_window_pattern"),
                                      consumed_field("attn_logit_softcapping"), consumed_field("final_logit_softcapping"), consumed_field("query_pre_attn_scalar"),
                                      consumed_field("rope_local_base_freq")};

constexpr std::array<Family, 6> kFamilies = {{
    {.architecture = "LlamaForCausalLM", .model_type = "llama", .models = "Llama 2 and 3.x, SmolLM2", .biases = Biases::kStated, .mlp_bias = true, .states_heads = false},
    {.architecture = "MistralForCausalLM", .model_type = "mistral", .models = "Mistral 7B, Mistral Nemo", .windows = WindowRule::kEveryLayer, .default_window = 4096,
     .fields = kMistralFields},
    {.architecture = "Qwen2ForCausalLM", .model_type = "qwen2", .models = "Qwen2 and Qwen2.5", .biases = Biases::kQkv, .windows = WindowRule::kFromLayer, .default_window = 4096,
     .fields = kQwen2Fields},
    {.architecture = "Qwen3ForCausalLM", .model_type = "qwen3", .models = "Qwen3 without experts", .biases = Biases::kStated, .qk_norm = true, .states_head_dim = true,
     .windows = WindowRule::kFromLayer, .default_window = 4096, .fields = kQwen3Fields},
    {.architecture = "Gemma2ForCausalLM", .model_type = "gemma2", .models = "Gemma 2", .gguf_norms_hold_offset = true, .activation = Activation::kGeluTanh,
     .biases = Biases::kStated, .branch_norms = true, .norm_weight_offset = 1.0, .scaled_embeddings = true, .states_head_dim = true, .tied = true, .windows = WindowRule::kPeriod,
     .window_period = 2, .default_window = 4096, .attention_scalar = true, .soft_caps = true, .default_attention_cap = 50.0, .default_final_cap = 30.0, .fields = kGemma2Fields},
    {.architecture = "Gemma3ForCausalLM", .model_type = "gemma3_text", .models = "Gemma 3, text", .gguf_norms_hold_offset = true, .activation = Activation::kGeluTanh,
     .biases = Biases::kStated, .qk_norm = true, .branch_norms = true, .norm_weight_offset = 1.0, .scaled_embeddings = true, .states_head_dim = true, .tied = true,
     .windows = WindowRule::kPeriod, .window_period = 6, .default_window = 4096, .rope_theta = 1000000.0, .local_rope_theta = 10000.0, .attention_scalar = true, .soft_caps = true,
     .fields = kGemma3Fields},
}};

struct Refusal {
  std::string_view architecture, reason;
};

constexpr std::string_view kVision = "it takes images, and only text is built", kExperts = "layers of experts are not built";
constexpr std::array kRefusals = {
    Refusal{"Gemma3ForConditionalGeneration", "it takes images, and only text is built: a checkpoint of its text half names Gemma3ForCausalLM"},
    Refusal{"Gemma3nForConditionalGeneration", kVision},
    Refusal{"Mistral3ForConditionalGeneration", kVision},
    Refusal{"Qwen2VLForConditionalGeneration", kVision},
    Refusal{"Qwen2_5_VLForConditionalGeneration", kVision},
    Refusal{"Qwen3VLForConditionalGeneration", kVision},
    Refusal{"LlavaForConditionalGeneration", kVision},
    Refusal{"MllamaForConditionalGeneration", kVision},
    Refusal{"MixtralForCausalLM", kExperts},
    Refusal{"Qwen2MoeForCausalLM", kExperts},
    Refusal{"Qwen3MoeForCausalLM", kExperts},
    Refusal{"Llama4ForCausalLM", kExperts},
};

constexpr std::string_view kHead = R"(# Families of models

Made by `quire flags-doc` from the table of families (`src/model/families.cc`); a test fails when this page is stale. `architectures` of config.json names the family; one that is not
here is refused with this list. Each row holds what differs from Llama; the forward pass is one (`src/model/forward.cc`) and reads the differences as values.

)";

constexpr std::string_view kTail = R"(
* **Norms.** *1 + w*: an RMS norm multiplies by one more than the file holds (added while loading; the norms of GGUF files have it in them). *Branch norms*: what attention and the feed-forward
  block put out is normed before it is added to the residual (`post_attention_layernorm`, `post_feedforward_layernorm`; the norm before the feed-forward block is `pre_feedforward_layernorm`).
  *q and k*: each head is normed before it is rotated.
* **Windows.** A query sees `sliding_window` keys, its own included. `layer_types` (`full_attention`, `sliding_attention`), where a file has it, decides; else the rule of the row. All layers
  share one block table: a window masks, it frees no blocks.
* **Rotary embedding.** Of Gemma 3, layers with a window turn by `rope_local_base_freq` and never by a scaling; newer files say both under `rope_parameters` by kind of layer.
* **Embeddings** of Gemma are multiplied by the root of `hidden_size`, rounded to the served type as they were trained.
* **Soft caps** are `cap * tanh(x / cap)`, of attention's scores after their scale and of the logits. A field that is `null` has none; one that is absent has the default.
* **Refused by name:** )";

std::string window_words(const Family& f) {
  switch (f.windows) {
    case WindowRule::kNone: return "none";
    case WindowRule::kEveryLayer: return "every layer, unless `sliding_window` is null";
    case WindowRule::kFromLayer: return "layers from `max_window_layers` on, if `use_sliding_window`";
    case WindowRule::kPeriod: return "all but each " + std::to_string(f.window_period) + (f.window_period == 2 ? "nd" : "th") + " layer";
  }
  return {};
}

std::string bias_words(const Family& f) {
  const std::string attention = f.biases == Biases::kNone ? "" : f.biases == Biases::kQkv ? "q, k, v" : "q, k, v, o if `attention_bias`";
  const std::string mlp = f.mlp_bias ? "gate, up, down if `mlp_bias`" : "";
  if (attention.empty() && mlp.empty()) return "none";
  return attention + (attention.empty() || mlp.empty() ? "" : "; ") + mlp;
}

std::string norm_words(const Family& f) {
  std::string out;
  const auto say = [&](bool holds, const char* what) {
    if (holds) out += (out.empty() ? "" : "; ") + std::string(what);
  };
  say(f.qk_norm, "q and k");
  say(f.branch_norms, "branch norms");
  say(f.norm_weight_offset != 0.0, "1 + w");
  return out.empty() ? "-" : out;
}

std::string other_words(const Family& f) {
  std::string out = f.activation == Activation::kGeluTanh ? "GELU (tanh)" : "SiLU";
  if (f.scaled_embeddings) out += "; scaled embeddings";
  if (f.attention_scalar) out += "; `query_pre_attn_scalar`";
  if (f.soft_caps) out += f.default_final_cap > 0.0 ? "; soft caps (" + shown(f.default_attention_cap) + " and " + shown(f.default_final_cap) + ")" : "; soft caps if stated";
  if (f.local_rope_theta > 0.0) out += "; rope of its own in layers with a window";
  if (f.tied) out += "; tied unless stated";
  return out;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view architecture) {
  const auto found = std::ranges::find(kFamilies, architecture, &Family::architecture);
  return found == kFamilies.end() ? nullptr : &*found;
}

std::string_view refusal_of(std::string_view architecture) {
  const auto found = std::ranges::find(kRefusals, architecture, &Refusal::architecture);
  return found == kRefusals.end() ? std::string_view() : found->reason;
}

std::string families_markdown() {
  std::string out(kHead);
  out += "| `architectures` | models | `model_type` | biases | norms | windows | else |\n|---|---|---|---|---|---|---|\n";
  for (const Family& f : kFamilies) {
    out += "| `" + std::string(f.architecture) + "` | " + std::string(f.models) + " | `" + std::string(f.model_type) + "`";
    for (const std::string& cell : {bias_words(f), norm_words(f), window_words(f), other_words(f)}) out += " | " + cell;
    out += " |\n";
  }
  out += kTail;
  for (const Refusal& r : kRefusals) out += (&r == kRefusals.data() ? "" : ", ") + ("`" + std::string(r.architecture)) + "` (" + std::string(r.reason) + ")";
  return out + ".\n";
}

}  // namespace quire::model
