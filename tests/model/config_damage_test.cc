// Damaged config.json texts: refused with words, or every number that later code relies on is in its range.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kit/seed.h"
#include "model/checkpoint.h"
#include "model/spec_parse.h"

namespace quire::model {
namespace {

const char* const kConfigs[] = {
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":99,"max_position_embeddings":2048,"rms_norm_eps":1e-5,"rope_theta":10000.0,"eos_token_id":[1,2],"torch_dtype":"float16","rope_scaling":null})",
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"head_dim":16,"vocab_size":99,"max_position_embeddings":131072,"rope_parameters":{"rope_type":"yarn","rope_theta":10000.0,"factor":4.0,"original_max_position_embeddings":32768,"beta_fast":32,"beta_slow":1,"truncate":false},"dtype":"bfloat16"})",
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":99,"max_position_embeddings":8192,"rope_theta":500000.0,"rope_scaling":{"type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192},"bos_token_id":3})",
    R"({"architectures":["Gemma3ForCausalLM"],"hidden_size":8,"intermediate_size":4,"num_hidden_layers":3,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,"vocab_size":9,"max_position_embeddings":16,"sliding_window":4,"sliding_window_pattern":2,"rope_local_base_freq":100,"query_pre_attn_scalar":4,"attn_logit_softcapping":5,"final_logit_softcapping":3})",
    R"({"architectures":["Qwen2ForCausalLM"],"hidden_size":8,"intermediate_size":4,"num_hidden_layers":3,"num_attention_heads":2,"num_key_value_heads":1,"vocab_size":9,"max_position_embeddings":16,"use_sliding_window":true,"sliding_window":4,"max_window_layers":1,"layer_types":["full_attention","sliding_attention","full_attention"]})",
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"intermediate_size":1,"num_hidden_layers":1,"num_attention_heads":1,"vocab_size":9,"max_position_embeddings":16,"rope_scaling":{"type":"dynamic","factor":2.0}})",
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"intermediate_size":4,"num_hidden_layers":3,"num_attention_heads":1,"vocab_size":9,"max_position_embeddings":16,"quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"},"input_activations":{"num_bits":8,"type":"float","strategy":"token","dynamic":true}}},"ignore":["lm_head","re:model\\.layers\\.1\\.(mlp|self_attn).*"]}})",
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"intermediate_size":4,"num_hidden_layers":1,"num_attention_heads":1,"vocab_size":9,"max_position_embeddings":16,"quantization_config":{"quant_method":"fp8","activation_scheme":"static","ignored_layers":["lm_head"],"kv_cache_scheme":"static"}})",
};

void expect_usable(const ModelSpec& spec, const std::string& text) {
  ASSERT_GE(spec.num_heads, spec.num_kv_heads) << text;
  ASSERT_GT(spec.num_kv_heads, 0) << text;
  ASSERT_EQ(spec.num_heads % spec.num_kv_heads, 0) << text;
  ASSERT_EQ(spec.head_dim % 2, 0) << text;
  const std::int64_t served = derived_max_model_len(spec, 0);
  ASSERT_GE(served, 1) << text;
  const RopeTable table = rope_table(spec.rope, spec.head_dim, spec.max_position_embeddings, served);
  ASSERT_EQ(table.inv_freq.size(), static_cast<std::size_t>(spec.head_dim / 2)) << text;
  ASSERT_TRUE(std::isfinite(table.attention_scale) && table.attention_scale > 0) << text;
  for (const double f : table.inv_freq) ASSERT_TRUE(std::isfinite(f) && f >= 0) << text;
  ASSERT_TRUE(spec.quant.layers.empty() || spec.quant.layers.size() == static_cast<std::size_t>(spec.num_layers)) << text;
  for (const LayerSchemes& layer : spec.quant.layers) ASSERT_TRUE(layer[0] == layer[1] && layer[0] == layer[2] && layer[4] == layer[5]) << text;
  ASSERT_TRUE(spec.masks.empty() || spec.masks.size() == static_cast<std::size_t>(spec.num_layers)) << text;
  for (std::int32_t i = 0; i < spec.num_layers; ++i) ASSERT_TRUE(spec.mask_of(i).window >= 0 && spec.mask_of(i).soft_cap >= 0 && spec.rope_of(i).theta > 0) << text;
  ASSERT_TRUE(std::isfinite(static_cast<float>(spec.attention_scale())) && spec.attention_scale() > 0 && spec.embedding_scale >= 1 && spec.final_soft_cap >= 0) << text;
  for (const ParameterSpec& parameter : parameters_of(spec))
    for (const std::int64_t n : parameter.shape) ASSERT_GE(n, 1) << text;
}

TEST(ModelSpecDamage, RandomEditsAreRefusedOrLeaveAUsableSpec) {
  auto rng = quire::test::seeded_rng();
  const std::string alphabet = "{}[]\",:0123456789-.eE truefalsn\\\xff";
  std::size_t accepted = 0, rounds = 0;
  for (const char* config : kConfigs) {
    ASSERT_TRUE(parse_model_spec(config, "c").ok()) << parse_model_spec(config, "c").error().message;
    for (int round = 0; round < 3000; ++round, ++rounds) {
      std::string text = config;
      const std::size_t edits = 1 + rng() % 2;
      for (std::size_t i = 0; i < edits; ++i) {
        const std::size_t at = rng() % text.size();
        switch (rng() % 4) {
          case 0: text[at] = alphabet[rng() % alphabet.size()]; break;
          case 1: text.erase(at, 1); break;
          case 2: text.insert(at, 1, alphabet[rng() % alphabet.size()]); break;
          case 3: text.insert(at, std::to_string(rng() >> (rng() % 64))); break;
        }
      }
      auto spec = parse_model_spec(text, "c");
      if (!spec.ok()) {
        ASSERT_FALSE(spec.error().message.empty());
        continue;
      }
      ++accepted;
      expect_usable(spec.value(), text);
    }
  }
  EXPECT_GT(accepted, rounds / 50) << "edits of numbers must leave some configs valid, or this test proves little";
  EXPECT_LT(accepted, rounds * 9 / 10);
}

}  // namespace
}  // namespace quire::model
