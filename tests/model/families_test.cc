// config.json of every family: what its row makes of a file, in older and newer forms, and what is refused in which words.
#include "model/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "model/checkpoint.h"
#include "model/spec_parse.h"

namespace quire::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Field name to JSON text; an empty text removes the field.
using Fields = std::map<std::string, std::string>;

Fields base_fields(const std::string& architecture) {
  return {{"architectures", "[\"" + architecture + "\"]"}, {"hidden_size", "64"}, {"intermediate_size", "128"}, {"num_hidden_layers", "6"}, {"num_attention_heads", "4"},
          {"num_key_value_heads", "2"}, {"head_dim", "32"}, {"vocab_size", "100"}, {"max_position_embeddings", "2048"}};
}

Result<ModelSpec> read(const std::string& architecture, const Fields& changes = {}) {
  Fields fields = base_fields(architecture);
  for (const auto& [name, text] : changes) fields[name] = text;
  std::string document;
  for (const auto& [name, text] : fields)
    if (!text.empty()) document += (document.empty() ? "{" : ", ") + ("\"" + name + "\": " + text);
  return parse_model_spec(document + "}", "config.json");
}

std::string error_of(const std::string& architecture, const Fields& changes) {
  auto spec = read(architecture, changes);
  return spec.ok() ? "accepted" : spec.error().message;
}

// "s" for each layer with a window, "g" for one without; then the sizes of windows.
std::string layers_of(const Result<ModelSpec>& spec) {
  if (!spec.ok()) return spec.error().message;
  std::string out;
  std::set<std::int32_t> windows;
  for (std::int32_t i = 0; i < spec->num_layers; ++i) {
    out += spec->is_local(i) ? 's' : 'g';
    if (spec->is_local(i)) windows.insert(spec->mask_of(i).window);
  }
  for (const std::int32_t w : windows) out += " " + std::to_string(w);
  return out;
}

TEST(Families, RowsAreToldApartAndFound) {
  std::set<std::string_view> names, types;
  for (const Family& f : families()) {
    EXPECT_TRUE(names.insert(f.architecture).second) << f.architecture;
    EXPECT_TRUE(types.insert(f.model_type).second) << f.model_type;
    EXPECT_EQ(find_family(f.architecture), &f);
    EXPECT_EQ(refusal_of(f.architecture), "") << "served and refused";
    EXPECT_EQ(f.gguf_norms_hold_offset, f.norm_weight_offset != 0.0);
    EXPECT_THAT(families_markdown(), HasSubstr("| `" + std::string(f.architecture) + "` |"));
    const auto spec = read(std::string(f.architecture));
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->architecture, f.architecture);
    EXPECT_EQ(spec->model_type, f.model_type);
    EXPECT_EQ(known_architectures()[static_cast<std::size_t>(&f - families().data())], f.architecture);
  }
  EXPECT_EQ(find_family("GPT2LMHeadModel"), nullptr);
}

TEST(Families, UnknownOnesAreRefusedWithTheList) {
  for (const char* name : {"GPT2LMHeadModel", "Gemma3ForConditionalGeneration", "MixtralForCausalLM", "Qwen3ForCausalLN"})
    for (const std::string& known : known_architectures()) EXPECT_THAT(error_of(name, {}), HasSubstr(known)) << name;
  EXPECT_THAT(error_of("Gemma3ForConditionalGeneration", {}), HasSubstr("it takes images, and only text is built: a checkpoint of its text half names Gemma3ForCausalLM"));
  EXPECT_THAT(error_of("MixtralForCausalLM", {{"num_local_experts", "8"}, {"sliding_window", "512"}}), ::testing::Not(HasSubstr("sliding_window"))) << "one mistake, one finding";
  EXPECT_THAT(error_of("MixtralForCausalLM", {}), HasSubstr("layers of experts are not built"));
  EXPECT_THAT(error_of("Qwen3ForCausalLN", {}), HasSubstr("did you mean 'Qwen3ForCausalLM'?"));
  EXPECT_THAT(error_of("MistralForCausalLM", {{"model_type", "\"llama\""}}), HasSubstr("model_type = \"llama\" is not implemented (of a MistralForCausalLM only \"mistral\")"));
}

TEST(Families, Mistral) {
  EXPECT_EQ(layers_of(read("MistralForCausalLM", {{"sliding_window", "512"}})), "ssssss 512");
  EXPECT_EQ(layers_of(read("MistralForCausalLM", {{"sliding_window", "null"}})), "gggggg");
  EXPECT_EQ(layers_of(read("MistralForCausalLM")), "ssssss 4096") << "the library's default";
  const auto spec = read("MistralForCausalLM", {{"head_dim", ""}, {"sliding_window", "null"}, {"hidden_act", "\"silu\""}, {"rope_theta", "1000000.0"}, {"attention_dropout", "0.0"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->head_dim, 16);
  EXPECT_TRUE(spec->masks.empty());
  EXPECT_FALSE(spec->qkv_bias || spec->o_bias || spec->mlp_bias || spec->qk_norm || spec->tie_word_embeddings);
  EXPECT_THAT(error_of("MistralForCausalLM", {{"attention_bias", "true"}}), HasSubstr("attention_bias = true is not implemented"));
  EXPECT_THAT(error_of("MistralForCausalLM", {{"num_key_value_heads", ""}}), HasSubstr("num_key_value_heads is missing"));
  EXPECT_THAT(error_of("MistralForCausalLM", {{"sliding_window", "0"}}), HasSubstr("sliding_window = 0 must be an integer of at least 1"));
  EXPECT_THAT(error_of("MistralForCausalLM", {{"sliding_window", "\"all\""}}), HasSubstr("sliding_window = \"all\""));
  EXPECT_THAT(error_of("MistralForCausalLM", {{"use_sliding_window", "true"}}), HasSubstr("use_sliding_window = true is not implemented"));
}

TEST(Families, Qwen2) {
  const Fields off = {{"use_sliding_window", "false"}, {"sliding_window", "131072"}, {"max_window_layers", "28"}, {"use_mrope", "false"}, {"rope_theta", "1000000.0"}, {"head_dim", ""}};
  EXPECT_EQ(layers_of(read("Qwen2ForCausalLM", off)), "gggggg");
  EXPECT_EQ(layers_of(read("Qwen2ForCausalLM", {{"use_sliding_window", "true"}, {"sliding_window", "100"}, {"max_window_layers", "4"}})), "ggggss 100");
  EXPECT_EQ(layers_of(read("Qwen2ForCausalLM", {{"use_sliding_window", "true"}, {"sliding_window", "100"}, {"max_window_layers", "0"}})), "ssssss 100");
  EXPECT_EQ(layers_of(read("Qwen2ForCausalLM", {{"use_sliding_window", "true"}, {"sliding_window", "100"}, {"layer_types", R"(["full_attention","sliding_attention","full_attention","full_attention","full_attention","sliding_attention"])"}})),
            "gsgggs 100");
  EXPECT_THAT(error_of("Qwen2ForCausalLM", {{"layer_types", R"(["sliding_attention","full_attention","full_attention","full_attention","full_attention","full_attention"])"}}),
              HasSubstr("layer_types asks for sliding_attention, and no sliding_window is in use"));
  EXPECT_THAT(error_of("Qwen2ForCausalLM", {{"layer_types", R"(["full_attention"])"}}), HasSubstr("must list a kind for each of the 6 layers"));
  EXPECT_THAT(error_of("Qwen2ForCausalLM", {{"layer_types", R"(["chunked_attention","full_attention","full_attention","full_attention","full_attention","full_attention"])"}}),
              HasSubstr("layer_types: \"chunked_attention\" is not implemented"));
  EXPECT_THAT(error_of("Qwen2ForCausalLM", {{"use_mrope", "true"}}), HasSubstr("use_mrope = true"));
  EXPECT_THAT(error_of("Qwen2ForCausalLM", {{"use_sliding_window", "1"}}), HasSubstr("use_sliding_window = 1 must be true or false"));
  const auto spec = read("Qwen2ForCausalLM", off);
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(spec->qkv_bias);
  EXPECT_FALSE(spec->o_bias || spec->mlp_bias);
  for (const ParameterSpec& p : parameters_of(spec.value())) EXPECT_EQ(p.name.ends_with(".bias"), p.name.ends_with("q_proj.bias") || p.name.ends_with("k_proj.bias") || p.name.ends_with("v_proj.bias"));
}

TEST(Families, Qwen3) {
  const auto spec = read("Qwen3ForCausalLM", {{"attention_bias", "false"}, {"max_window_layers", "28"}, {"sliding_window", "null"}, {"use_sliding_window", "false"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->qk_norm);
  EXPECT_FALSE(spec->qkv_bias || spec->o_bias);
  std::size_t norms = 0;
  for (const ParameterSpec& p : parameters_of(spec.value()))
    if (p.name.ends_with(".self_attn.q_norm.weight") || p.name.ends_with(".self_attn.k_norm.weight")) {
      ++norms;
      EXPECT_EQ(p.shape, std::vector<std::int64_t>{32});
    }
  EXPECT_EQ(norms, 12u);
  EXPECT_TRUE(read("Qwen3ForCausalLM", {{"attention_bias", "true"}})->o_bias);
  EXPECT_THAT(error_of("Qwen3ForCausalLM", {{"head_dim", ""}}), HasSubstr("head_dim is missing"));
}

TEST(Families, Gemma2) {
  const Fields file = {{"hidden_act", "\"gelu_pytorch_tanh\""}, {"hidden_activation", "\"gelu_pytorch_tanh\""}, {"cache_implementation", "\"hybrid\""}, {"query_pre_attn_scalar", "224"},
                       {"sliding_window", "4096"}, {"attn_logit_softcapping", "50.0"}, {"final_logit_softcapping", "30.0"}, {"attention_bias", "false"}, {"pad_token_id", "0"}};
  const auto spec = read("Gemma2ForCausalLM", file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(layers_of(spec), "sgsgsg 4096");
  EXPECT_EQ(spec->activation, Activation::kGeluTanh);
  EXPECT_EQ(spec->embedding_scale, 8.0);
  EXPECT_EQ(spec->norm_weight_offset, 1.0);
  EXPECT_DOUBLE_EQ(spec->attention_scale(), 1.0 / std::sqrt(224.0));
  EXPECT_EQ(spec->final_soft_cap, 30.0);
  EXPECT_TRUE(spec->branch_norms && spec->tie_word_embeddings);
  EXPECT_FALSE(spec->qk_norm || spec->local_rope.has_value());
  for (std::int32_t i = 0; i < 6; ++i) EXPECT_EQ(spec->mask_of(i).soft_cap, 50.0);
  std::size_t layer_norms = 0;
  for (const ParameterSpec& p : parameters_of(spec.value())) layer_norms += p.name.find("layernorm") != std::string::npos ? 1u : 0u;
  EXPECT_EQ(layer_norms, 4u * 6);
  const auto defaults = read("Gemma2ForCausalLM"), none = read("Gemma2ForCausalLM", {{"attn_logit_softcapping", "null"}, {"final_logit_softcapping", "null"}, {"tie_word_embeddings", "false"}});
  ASSERT_TRUE(defaults.ok() && none.ok());
  EXPECT_EQ(defaults->mask_of(1), (LayerMask{.soft_cap = 50.0}));
  EXPECT_EQ(defaults->final_soft_cap, 30.0);
  EXPECT_EQ(none->mask_of(1), LayerMask{});
  EXPECT_EQ(none->final_soft_cap, 0.0);
  EXPECT_FALSE(none->tie_word_embeddings);
  EXPECT_THAT(error_of("Gemma2ForCausalLM", {{"hidden_activation", "\"gelu\""}, {"attn_logit_softcapping", "-1"}, {"query_pre_attn_scalar", "0"}, {"final_logit_softcapping", "1e-9"}}),
              AllOf(HasSubstr("hidden_activation = \"gelu\" is not implemented"), HasSubstr("attn_logit_softcapping = -1 must be a number from 0.001 to 1000000, or null"),
                    HasSubstr("query_pre_attn_scalar = 0"), HasSubstr("final_logit_softcapping = 1")));
  EXPECT_THAT(error_of("Gemma2ForCausalLM", {{"sliding_window", "null"}}), HasSubstr("accepted")) << "no layer has a window then";
}

TEST(Families, Gemma3InBothForms) {
  const Fields older = {{"model_type", "\"gemma3_text\""}, {"sliding_window_pattern", "6"}, {"sliding_window", "512"}, {"rope_theta", "1000000.0"}, {"rope_local_base_freq", "10000.0"},
                        {"rope_scaling", R"({"factor": 8.0, "rope_type": "linear"})"}, {"query_pre_attn_scalar", "256"}, {"attn_logit_softcapping", "null"}, {"final_logit_softcapping", "null"},
                        {"hidden_activation", "\"gelu_pytorch_tanh\""}, {"cache_implementation", "\"hybrid\""}};
  Fields newer = older;
  newer.erase("sliding_window_pattern");
  newer.erase("rope_theta");
  newer.erase("rope_local_base_freq");
  newer.erase("rope_scaling");
  newer["_sliding_window_pattern"] = "6";
  newer["use_bidirectional_attention"] = "false";
  newer["layer_types"] = R"(["sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"])";
  newer["rope_parameters"] = R"({"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})";
  for (const Fields& fields : {older, newer}) {
    const auto spec = read("Gemma3ForCausalLM", fields);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(layers_of(spec), "sssssg 512");
    EXPECT_EQ(spec->rope.kind, RopeKind::kLinear);
    EXPECT_EQ(spec->rope.factor, 8.0);
    EXPECT_EQ(spec->rope.theta, 1000000.0);
    ASSERT_TRUE(spec->local_rope.has_value());
    EXPECT_EQ(spec->local_rope->kind, RopeKind::kDefault);
    EXPECT_EQ(spec->local_rope->theta, 10000.0);
    EXPECT_EQ(&spec->rope_of(0), &*spec->local_rope);
    EXPECT_EQ(&spec->rope_of(5), &spec->rope);
    EXPECT_TRUE(spec->qk_norm && spec->branch_norms && spec->tie_word_embeddings);
    EXPECT_EQ(spec->final_soft_cap, 0.0);
    EXPECT_EQ(spec->mask_of(5), LayerMask{});
  }
  const auto defaults = read("Gemma3ForCausalLM");
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(defaults->rope.theta, 1000000.0);
  EXPECT_EQ(defaults->local_rope->theta, 10000.0);
  EXPECT_EQ(layers_of(defaults), "sssssg 4096");
  EXPECT_EQ(layers_of(read("Gemma3ForCausalLM", {{"sliding_window_pattern", "2"}})), "sgsgsg 4096");
}

TEST(Families, WrongRopesOfGemma3AreRefused) {
  struct Case {
    Fields changes;
    const char* message;
  };
  const Case cases[] = {
      {{{"rope_parameters", R"({"full_attention": {"rope_theta": 7}})"}}, "rope_parameters.sliding_attention = (absent) must be an object"},
      {{{"rope_parameters", R"({"full_attention": 7, "sliding_attention": {}})"}}, "rope_parameters.full_attention = 7 must be an object"},
      {{{"rope_parameters", R"({"full_attention": {}, "sliding_attention": {}, "chunked_attention": {}})"}}, "rope_parameters.chunked_attention is not implemented"},
      {{{"rope_parameters", R"({"full_attention": {"rope_theta": 7}, "sliding_attention": {}})"}, {"rope_theta", "8"}}, "rope_parameters.full_attention.rope_theta contradicts rope_theta = 8"},
      {{{"rope_parameters", R"({"full_attention": {}, "sliding_attention": {"rope_theta": 7}})"}, {"rope_local_base_freq", "8"}},
       "rope_parameters.sliding_attention.rope_theta contradicts rope_local_base_freq = 8"},
      {{{"rope_parameters", R"({"full_attention": {"rope_tipe": "linear"}, "sliding_attention": {}})"}}, "unknown field \"rope_parameters.full_attention.rope_tipe\""},
      {{{"rope_parameters", R"({"full_attention": {}, "sliding_attention": {}})"}, {"rope_scaling", R"({"rope_type": "linear", "factor": 2})"}},
       "rope_scaling beside rope_parameters by kind of layer is not implemented"},
      {{{"rope_local_base_freq", "-1"}}, "rope_local_base_freq = -1 must be a positive number"},
      {{{"use_bidirectional_attention", "true"}}, "use_bidirectional_attention = true is not implemented"},
      {{{"vision_config", "{}"}}, "vision_config"},
      {{{"sliding_window_pattern", "0"}}, "sliding_window_pattern = 0 must be an integer of at least 1"},
      {{{"sliding_window", "null"}, {"layer_types", R"(["sliding_attention","full_attention","full_attention","full_attention","full_attention","full_attention"])"}}, "no sliding_window is in use"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_of("Gemma3ForCausalLM", c.changes), HasSubstr(c.message));
  EXPECT_THAT(error_of("LlamaForCausalLM", {{"rope_parameters", R"({"full_attention": {}, "sliding_attention": {}})"}}), HasSubstr("unknown field \"rope_parameters.full_attention\""));
}

// Fields of one family mean nothing in another, and are not passed over there.
TEST(Families, FieldsOfOthersAreRefused) {
  EXPECT_THAT(error_of("LlamaForCausalLM", {{"sliding_window", "512"}}), HasSubstr("sliding_window = 512 is not implemented"));
  EXPECT_THAT(error_of("LlamaForCausalLM", {{"rope_local_base_freq", "10000"}}), HasSubstr("rope_local_base_freq = 10000"));
  EXPECT_THAT(error_of("Qwen3ForCausalLM", {{"final_logit_softcapping", "30"}}), HasSubstr("final_logit_softcapping = 30"));
  EXPECT_THAT(error_of("Qwen2ForCausalLM", {{"sliding_window_pattern", "2"}}), HasSubstr("sliding_window_pattern = 2"));
  EXPECT_THAT(error_of("Gemma2ForCausalLM", {{"rope_local_base_freq", "10000"}}), HasSubstr("rope_local_base_freq = 10000"));
  EXPECT_THAT(error_of("Gemma2ForCausalLM", {{"max_window_layers", "2"}}), HasSubstr("max_window_layers = 2"));
}

}  // namespace
}  // namespace quire::model
