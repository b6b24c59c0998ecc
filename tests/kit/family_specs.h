// One small config.json for each family, with everything that it does differently in use: windows, caps and periods are so small that
// prompts of a few blocks feel them all.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/spec_parse.h"

namespace quire::test {

struct FamilyCase {
  const char* architecture;
  const char* fields;  // beside the sizes
};

inline const std::vector<FamilyCase>& family_cases() {
  static const std::vector<FamilyCase> cases = {
      {"LlamaForCausalLM", R"("model_type": "llama", "num_hidden_layers": 2)"},
      {"MistralForCausalLM", R"("model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 9, "rope_theta": 1000)"},
      {"Qwen2ForCausalLM", R"("model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 20, "max_window_layers": 1, "tie_word_embeddings": true)"},
      {"Qwen3ForCausalLM", R"("model_type": "qwen3", "num_hidden_layers": 3, "attention_bias": true, "sliding_window": null)"},
      {"Gemma2ForCausalLM", R"("model_type": "gemma2", "num_hidden_layers": 4, "sliding_window": 20, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 8.0)"},
      {"Gemma3ForCausalLM", R"("model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 17, "sliding_window_pattern": 3, "query_pre_attn_scalar": 24,
        "rope_theta": 1000, "rope_local_base_freq": 100, "rope_scaling": {"rope_type": "linear", "factor": 4}, "final_logit_softcapping": 8.0)"},
  };
  return cases;
}

// Widths that are no multiples of a vector, a panel or of each other; 8 query heads over 2.
inline model::ModelSpec family_spec(const FamilyCase& family) {
  const std::string text = R"({"architectures": [")" + std::string(family.architecture) + R"("], "hidden_size": 40, "intermediate_size": 70, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 16, "vocab_size": 91, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "torch_dtype": "float32", )" + family.fields + "}";
  const auto spec = model::parse_model_spec(text, family.architecture);
  QUIRE_CHECK(spec.ok()) << spec.error().message;
  return spec.value();
}

inline model::ModelSpec family_spec(std::string_view architecture) {
  for (const FamilyCase& family : family_cases())
    if (architecture == family.architecture) return family_spec(family);
  QUIRE_CHECK(false) << architecture;
  return {};
}

}  // namespace quire::test
