// What a checkpoint's config.json says, checked and in the field's words. Plain data: no tensors, no device.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "base/result.h"
#include "gguf/types.h"
#include "model/quantization.h"

namespace quire::model {

enum class RopeKind : std::uint8_t { kDefault, kLinear, kDynamic, kLlama3, kYarn };

// Rotary embedding parameters. "linear": Chen et al. 2023; "dynamic": NTK-aware scaling by the served maximum length;
// "llama3": Llama 3.1's wavelength bands; "yarn": Peng et al. 2023 (arXiv:2309.00071).
struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  std::int64_t original_max_position_embeddings = 0;     // llama3, yarn, dynamic; 0: max_position_embeddings
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  std::optional<double> attention_factor;                // yarn: overrides 0.1 ln(factor) + 1
  double mscale = 0.0, mscale_all_dim = 0.0;             // yarn, DeepSeek's form; 0: absent
  bool truncate = true;                                  // yarn: round the correction range
  std::vector<double> divisors;                          // default: of each pair's frequency, [head_dim / 2]; empty: none. Of GGUF files
};

// What a layer's queries see beyond causality; 0: off. The arithmetic is attention's (attention/params.h, docs/NUMERICS.md).
struct LayerMask {
  std::int32_t window = 0;  // keys that a query sees, its own included
  std::int32_t chunk = 0;   // ... of its own chunk of so many positions alone
  double soft_cap = 0.0;    // of scores
  friend bool operator==(const LayerMask&, const LayerMask&) = default;
};

// What a GGUF file says that no config.json does.
struct GgufFacts {
  std::string matrices;    // by element type, "210 Q4_1, 1 Q8_0"
  bool quantised = false;  // some tensor is; then ModelSpec::dtype is what they become
  std::map<std::string, gguf::TensorType, std::less<>> blocks;  // types of quantised matrices, by parameter name
};

// What the gate of the feed-forward block goes through. gelu_tanh: the tanh form of GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415).
enum class Activation : std::uint8_t { kSilu, kGeluTanh };

// Families (model/families.h) differ in these values alone: whatever walks a model reads them and never a family's name.
struct ModelSpec {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"
  std::int32_t hidden_size = 0, intermediate_size = 0, num_layers = 0;
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int32_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  RopeSpec rope;
  std::optional<RopeSpec> local_rope;  // of layers with a window, where it is another
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;       // each head of q and k goes through an RMS norm before it is rotated
  bool branch_norms = false;  // what attention and the feed-forward block put out goes through an RMS norm before it is added
  double norm_weight_offset = 0.0;  // an RMS norm multiplies by this + what the checkpoint holds
  Activation activation = Activation::kSilu;
  double embedding_scale = 1.0;     // rounded to the served type; multiplies embeddings, not the output matrix that is tied to them
  std::optional<double> query_pre_attn_scalar;  // scores are multiplied by its square root's inverse; absent: head_dim's
  double final_soft_cap = 0.0;      // of logits; 0: none
  bool tie_word_embeddings = false;
  std::vector<LayerMask> masks;        // [num_layers]; empty: none
  DType dtype = DType::kBF16;          // "dtype" or "torch_dtype"; float32 when absent
  std::vector<TokenId> eos_token_ids;  // config.json's eos_token_id (number or list)
  std::optional<TokenId> bos_token_id;
  QuantSpec quant;                     // of the matrices and the KV cache, as the checkpoint holds them
  std::optional<GgufFacts> gguf;       // the model is a GGUF file

  [[nodiscard]] LayerMask mask_of(std::int32_t layer) const { return masks.empty() ? LayerMask{} : masks.at(static_cast<std::size_t>(layer)); }
  [[nodiscard]] bool is_local(std::int32_t layer) const { return mask_of(layer).window > 0; }
  [[nodiscard]] const RopeSpec& rope_of(std::int32_t layer) const { return local_rope && is_local(layer) ? *local_rope : rope; }
  [[nodiscard]] double attention_scale() const { return 1.0 / std::sqrt(query_pre_attn_scalar.value_or(head_dim)); }
};

// generation_config.json: sampling defaults and end tokens. Absent file: all empty.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens;
  std::vector<TokenId> eos_token_ids;
};

// Reads `model_dir`/config.json, and hf_quant_config.json beside it where there is one; where `model_dir` is a GGUF file, its metadata. Refuses by name: unknown architecture (with the
// list of known ones), a field that changes numerics and is not implemented (an activation that is not the family's, unknown rope type, a quantisation that docs/QUANTIZATION.md does not list, ...),
// values that contradict each other or overflow. Unknown fields that do not change numerics are ignored by an explicit list;
// a field on no list is refused by name, so that nothing is ever silently ignored.
[[nodiscard]] Result<ModelSpec> read_model_spec(const std::string& model_dir);
// The text of `model_dir`/config.json, or what a GGUF file's metadata say in its words.
[[nodiscard]] Result<std::string> read_config_json(const std::string& model_dir);
// `model_dir`/generation_config.json, or a GGUF file's general.sampling keys. A value that a request could not hold, or an end token outside the vocabulary, is refused by name:
// passed over, it would change answers without a word.
[[nodiscard]] Result<GenerationDefaults> read_generation_defaults(const std::string& model_dir, std::int64_t vocab_size);

// Architectures this build serves (model/families.h), for messages; docs/FAMILIES.md.
[[nodiscard]] const std::vector<std::string>& known_architectures();
[[nodiscard]] std::string families_markdown();

// The longest context vLLM would derive: max_position_embeddings (for yarn: the original length), limited by the tokenizer's
// model_max_length when that is stated (> 0; yarn ignores it), then scaled by the rope factor for linear, dynamic and yarn.
[[nodiscard]] std::int64_t derived_max_model_len(const ModelSpec& spec, std::int64_t tokenizer_model_max_length);

// Rotary frequencies: inv_freq[head_dim/2] and the factor applied to cos and sin. Fixed at load from the served maximum
// length (matters for "dynamic").
struct RopeTable {
  std::vector<double> inv_freq;
  double attention_scale = 1.0;
};
[[nodiscard]] RopeTable rope_table(const RopeSpec& rope, std::int32_t head_dim, std::int64_t max_position_embeddings, std::int64_t max_model_len);

}  // namespace quire::model
