// The families of models that this build serves: one row for each, which says what it does differently. Parsing a config.json turns a row
// into values of ModelSpec; nothing after that knows a family. docs/FAMILIES.md is made from the same rows.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/config_fields.h"
#include "model/spec.h"

namespace quire::model {

// Which layers see a window of their keys alone, where config.json does not list them ("layer_types").
enum class WindowRule : std::uint8_t {
  kNone,        // none, and the file may not ask for one
  kEveryLayer,  // all, unless sliding_window is null
  kFromLayer,   // from max_window_layers on, where use_sliding_window is true
  kPeriod,      // all but the last of each `window_period` layers (sliding_window_pattern, where a file states it)
};

enum class Biases : std::uint8_t {
  kNone,
  kStated,  // q, k, v and o, where attention_bias is true
  kQkv,     // q, k and v
};

struct Family {
  std::string_view architecture, model_type;  // config.json's architectures[0] and model_type
  std::string_view models;                    // that are published of it, for documents
  // Norm weights in GGUF files have the offset in them already: a reader of such a file sets ModelSpec::norm_weight_offset to 0.
  bool gguf_norms_hold_offset = false;
  Activation activation = Activation::kSilu;
  Biases biases = Biases::kNone;
  bool mlp_bias = false;            // where the file says so
  bool qk_norm = false;
  bool branch_norms = false;
  double norm_weight_offset = 0.0;
  bool scaled_embeddings = false;   // by the root of hidden_size
  bool states_heads = true;         // num_key_value_heads must be there: its default is that of one published size
  bool states_head_dim = false;     // head_dim too
  bool tied = false;                // tie_word_embeddings where the file says nothing
  WindowRule windows = WindowRule::kNone;
  std::int64_t window_period = 0;   // kPeriod
  std::int64_t default_window = 0;  // sliding_window where the file says nothing (null says that there is none)
  double rope_theta = 10000.0;      // where the file says nothing
  double local_rope_theta = 0.0;    // of layers with a window (rope_local_base_freq); 0: the same rope in all layers
  bool attention_scalar = false;    // query_pre_attn_scalar, which is 256 where the file says nothing
  bool soft_caps = false;           // attn_logit_softcapping and final_logit_softcapping ...
  double default_attention_cap = 0.0, default_final_cap = 0.0;  // ... where the file says nothing (null says that there are none)
  std::span<const ConfigField> fields = {};  // fates that differ from Llama's
};

[[nodiscard]] std::span<const Family> families();
[[nodiscard]] const Family* find_family(std::string_view architecture);
// Why a well-known architecture that is on no row is refused; empty: nothing more to say than that it is not known.
[[nodiscard]] std::string_view refusal_of(std::string_view architecture);

}  // namespace quire::model
