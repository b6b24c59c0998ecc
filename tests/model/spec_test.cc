// config.json and generation_config.json: what is read, what is passed over, and what is refused in which words.
#include "model/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kit/log_capture.h"
#include "kit/temp_dir.h"
#include "model/generation_fields.h"

namespace quire::model {
namespace {

using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Field name to JSON text; an empty text removes the field.
using Fields = std::map<std::string, std::string>;

Fields base_fields() {
  return {{"architectures", R"(["LlamaForCausalLM"])"},
          {"model_type", R"("llama")"},
          {"hidden_size", "64"},
          {"intermediate_size", "128"},
          {"num_hidden_layers", "2"},
          {"num_attention_heads", "4"},
          {"num_key_value_heads", "2"},
          {"vocab_size", "100"},
          {"max_position_embeddings", "2048"},
          {"rms_norm_eps", "1e-5"},
          {"torch_dtype", R"("bfloat16")"}};
}

Result<ModelSpec> read_text(const std::string& text) {
  TempDir dir;
  (void)dir.write("config.json", text);
  return read_model_spec(dir.path());
}

Result<ModelSpec> read_with(const Fields& changes) {
  Fields fields = base_fields();
  for (const auto& [name, text] : changes) fields[name] = text;
  std::string document;
  for (const auto& [name, text] : fields)
    if (!text.empty()) document += (document.empty() ? "{" : ", ") + ("\"" + name + "\": " + text);
  return read_text(document + "}");
}

std::string error_with(const Fields& changes) {
  auto spec = read_with(changes);
  return spec.ok() ? "accepted" : spec.error().message;
}

TEST(ModelSpec, ReadsTheOlderForm) {
  auto spec = read_with(
      {{"rope_theta", "500000"}, {"eos_token_id", "[3, 5, 3]"}, {"bos_token_id", "1"}, {"tie_word_embeddings", "true"}, {"attention_bias", "true"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->architecture, "LlamaForCausalLM");
  EXPECT_EQ(spec->model_type, "llama");
  EXPECT_EQ(spec->hidden_size, 64);
  EXPECT_EQ(spec->intermediate_size, 128);
  EXPECT_EQ(spec->num_layers, 2);
  EXPECT_EQ(spec->num_heads, 4);
  EXPECT_EQ(spec->num_kv_heads, 2);
  EXPECT_EQ(spec->head_dim, 16);
  EXPECT_EQ(spec->vocab_size, 100);
  EXPECT_EQ(spec->max_position_embeddings, 2048);
  EXPECT_EQ(spec->rms_norm_eps, 1e-5);
  EXPECT_EQ(spec->rope.kind, RopeKind::kDefault);
  EXPECT_EQ(spec->rope.theta, 500000.0);
  EXPECT_EQ(spec->dtype, DType::kBF16);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_TRUE(spec->qkv_bias && spec->o_bias);
  EXPECT_FALSE(spec->mlp_bias);
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(3, 5));
  EXPECT_EQ(spec->bos_token_id, 1);
}

TEST(ModelSpec, FillsInWhatMayBeAbsent) {
  auto spec = read_with({{"num_key_value_heads", ""}, {"rms_norm_eps", ""}, {"torch_dtype", ""}, {"model_type", ""}, {"bos_token_id", "null"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->num_kv_heads, 4);
  EXPECT_EQ(spec->rms_norm_eps, 1e-6);
  EXPECT_EQ(spec->dtype, DType::kF32);
  EXPECT_EQ(spec->rope.theta, 10000.0);
  EXPECT_THAT(spec->eos_token_ids, IsEmpty());
  EXPECT_FALSE(spec->bos_token_id.has_value());
}

TEST(ModelSpec, HeadDimNeedNotMatchHiddenSize) {
  auto spec = read_with({{"head_dim", "32"}, {"hidden_size", "66"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->head_dim, 32);
}

TEST(ModelSpec, GsmTiny) {
  auto spec = read_model_spec(QUIRE_SOURCE_DIR "/models/gsm-tiny");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->hidden_size, 256);
  EXPECT_EQ(spec->head_dim, 64);
  EXPECT_EQ(spec->num_kv_heads, 2);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_EQ(spec->dtype, DType::kBF16);
  auto defaults = read_generation_defaults(QUIRE_SOURCE_DIR "/models/gsm-tiny", 576);
  ASSERT_TRUE(defaults.ok());
  EXPECT_THAT(defaults->eos_token_ids, ElementsAre(0, 2));
}

// What published Llama 2 and 3 files carry beside the fields that count.
TEST(ModelSpec, FieldsOfPublishedFilesAreAccepted) {
  EXPECT_EQ(error_with({{"_name_or_path", R"("meta")"},
                        {"attention_dropout", "0.1"},
                        {"hidden_act", R"("silu")"},
                        {"initializer_range", "0.02"},
                        {"pretraining_tp", "1"},
                        {"rope_scaling", "null"},
                        {"transformers_version", R"("4.43.0")"},
                        {"use_cache", "true"},
                        {"pad_token_id", "-1"},
                        {"sliding_window", "null"},
                        {"use_sliding_window", "false"},
                        {"quantization_config", "null"},
                        {"id2label", R"({"0": "A"})"},
                        {"label2id", R"({"A": 0})"},
                        {"pruned_heads", "{}"},
                        {"is_encoder_decoder", "false"},
                        {"temperature", "1.0"},
                        {"top_k", "50"},
                        {"bad_words_ids", "null"},
                        {"torchscript", "false"},
                        {"layer_types", R"(["full_attention", "full_attention"])"},
                        {"partial_rotary_factor", "1.0"},
                        {"attn_logit_softcapping", "null"},
                        {"max_sequence_length", "2048"},
                        {"auto_map", R"({"AutoConfig": "x.py"})"},
                        {"unsloth_version", R"("2024.9")"},
                        {"mlp_bias", "null"},
                        {"rope_parameters", "{}"}}),
            "accepted");
}

TEST(ModelSpec, FieldsThatChangeNumericsAreRefusedByNameAndValue) {
  struct Case {
    const char* field;
    const char* value;
    const char* message;
  };
  const Case cases[] = {
      {"hidden_act", R"("gelu")", "hidden_act = \"gelu\" is not implemented"},
      {"sliding_window", "4096", "sliding_window = 4096 is not implemented (only absent or null)"},
      {"use_sliding_window", "true", "use_sliding_window = true"},
      {"quantization_config", R"({"quant_method": "fp8"})", "quantization_config.activation_scheme = (absent)"},
      {"partial_rotary_factor", "0.5", "partial_rotary_factor = 0.5 is not implemented (only absent or null or 1)"},
      {"attn_logit_softcapping", "50.0", "attn_logit_softcapping = 50"},
      {"pretraining_tp", "2", "pretraining_tp = 2"},
      {"layer_types", R"(["full_attention", "sliding_attention"])", "layer_types = "},
      {"layer_types", R"("full_attention")", "layer_types = "},
      {"pruned_heads", R"({"0": [1]})", "pruned_heads"},
      {"num_experts", "8", "num_experts = 8"},
      {"max_sequence_length", "1024", "max_sequence_length = 1024 contradicts max_position_embeddings = 2048"},
      {"hidden_sise", "64", "unknown field \"hidden_sise\" = 64 (did you mean 'hidden_size'?)"},
      {"brand_new_attention_trick", "true", "unknown field \"brand_new_attention_trick\" = true"},
      {"architectures", R"(["LlamaForCausalLN"])", "did you mean 'LlamaForCausalLM'?"},
      {"architectures", R"(["GemmaForCausalLM"])", "(known: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM)"},
      {"architectures", R"(["LlamaForCausalLM", "Other"])", "must name one architecture"},
      {"architectures", "", "architectures = (absent)"},
      {"architectures", "[7]", "must name one architecture"},
      {"model_type", R"("mistral")", "model_type = \"mistral\""},
      {"torch_dtype", R"("float8_e4m3fn")", "torch_dtype = \"float8_e4m3fn\""},
      {"torch_dtype", R"("int32")", "torch_dtype = \"int32\""},
      {"torch_dtype", "16", "torch_dtype = 16"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_with({{c.field, c.value}}), HasSubstr(c.message)) << c.field << " " << c.value;
}

TEST(ModelSpec, EveryFindingIsListedAtOnce) {
  const std::string message =
      error_with({{"sliding_window", "7"}, {"mystery", "1"}, {"hidden_size", "0"}, {"rope_scaling", R"({"rope_type": "longrope"})"}});
  EXPECT_THAT(message, AllOf(HasSubstr("sliding_window = 7"), HasSubstr("\"mystery\" = 1"), HasSubstr("hidden_size = 0"), HasSubstr("\"longrope\""),
                             HasSubstr("config.json")));
}

TEST(ModelSpec, RangesAndTypesAreChecked) {
  struct Case {
    Fields changes;
    const char* message;
  };
  const Case cases[] = {
      {{{"hidden_size", "-64"}}, "hidden_size = -64 must be an integer from 1 to 65536"},
      {{{"hidden_size", "65537"}}, "hidden_size = 65537"},
      {{{"hidden_size", "64.5"}}, "hidden_size = 64.5"},
      {{{"hidden_size", R"("64")"}}, "hidden_size = \"64\""},
      {{{"hidden_size", "18446744073709551615"}}, "hidden_size = 18446744073709551615"},
      {{{"hidden_size", "1e300"}}, "hidden_size = 1"},
      {{{"hidden_size", ""}}, "hidden_size is missing"},
      {{{"hidden_size", "null"}}, "hidden_size is missing"},
      {{{"intermediate_size", "0"}}, "intermediate_size = 0"},
      {{{"num_hidden_layers", "1025"}}, "num_hidden_layers = 1025 must be an integer from 1 to 1024"},
      {{{"num_hidden_layers", "true"}}, "num_hidden_layers = true"},
      {{{"vocab_size", "16777217"}}, "vocab_size = 16777217"},
      {{{"max_position_embeddings", "4294967296"}}, "max_position_embeddings = 4294967296"},
      {{{"max_position_embeddings", "1"}}, "max_position_embeddings = 1 leaves no room"},
      {{{"num_attention_heads", "0"}}, "num_attention_heads = 0"},
      {{{"num_key_value_heads", "3"}}, "num_attention_heads = 4 is not a multiple of num_key_value_heads = 3"},
      {{{"num_key_value_heads", "8"}}, "not a multiple"},
      {{{"num_attention_heads", "6"}}, "hidden_size = 64 is not a multiple of num_attention_heads = 6, and head_dim is absent"},
      {{{"head_dim", "15"}}, "head_dim = 15 must be even"},
      {{{"head_dim", "2048"}}, "head_dim = 2048"},
      {{{"num_attention_heads", "64"}}, "head_dim = 1 must be even"},
      {{{"rms_norm_eps", "0"}}, "rms_norm_eps = 0"},
      {{{"rms_norm_eps", "-1e-5"}}, "rms_norm_eps = -1"},
      {{{"rms_norm_eps", "1e999"}}, "config.json"},
      {{{"rms_norm_eps", "\"1e-5\""}}, "rms_norm_eps = \"1e-5\""},
      {{{"rms_norm_eps", "NaN"}}, "invalid JSON"},
      {{{"tie_word_embeddings", "1"}}, "tie_word_embeddings = 1 must be true or false"},
      {{{"attention_bias", "\"no\""}}, "attention_bias"},
      {{{"eos_token_id", "100"}}, "eos_token_id holds 100"},
      {{{"eos_token_id", "[1, -1]"}}, "eos_token_id holds -1"},
      {{{"eos_token_id", "[[1]]"}}, "eos_token_id holds [1]"},
      {{{"bos_token_id", "[1]"}}, "bos_token_id = [1]"},
      {{{"dtype", R"("float16")"}}, "torch_dtype = \"bfloat16\" contradicts dtype = \"float16\""},
  };
  for (const Case& c : cases) EXPECT_THAT(error_with(c.changes), HasSubstr(c.message));
}

// One wrong size is one finding: what would follow from it is not looked at. With fields that depend on sizes in every way.
TEST(ModelSpec, OneMistakeHasOneFinding) {
  const Fields variants[] = {{{"eos_token_id", "[99]"}, {"bos_token_id", "98"}},
                             {{"head_dim", "16"}},
                             {{"num_key_value_heads", ""}},
                             {{"rope_scaling", R"({"rope_type": "dynamic", "factor": 2, "original_max_position_embeddings": 2048})"}},
                             {{"rope_scaling", R"({"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 512})"}},
                             {{"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4})"}}};
  const char* const sizes[] = {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"};
  for (const Fields& variant : variants) {
    ASSERT_EQ(error_with(variant), "accepted");
    for (const std::string field : sizes) {
      for (const char* wrong : {"0", "-1", "\"4\"", "1e300", "[4]", "1.5", "4294967296"}) {
        Fields changed = variant;
        changed[field] = wrong;
        const std::string error = error_with(changed);
        EXPECT_THAT(error, HasSubstr(": " + field + " = ")) << wrong;
        EXPECT_THAT(error, Not(HasSubstr("; "))) << field << " = " << wrong;
      }
    }
  }
  struct Case {
    const char *field, *text, *message;
  };
  const Case cases[] = {{"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": "1", "high_freq_factor": 4})", "low_freq_factor = \"1\""},
                        {"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1})", "high_freq_factor is missing"},
                        {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_slow": 40, "beta_fast": "x"})", "beta_fast = \"x\""},
                        {"rope_theta", "0", "rope_theta = 0"}};
  for (const Case& c : cases) EXPECT_THAT(error_with({{c.field, c.text}}), AllOf(HasSubstr(c.message), Not(HasSubstr("; ")))) << c.text;
}

TEST(ModelSpec, EveryMistakeIsListed) {
  const std::string error = error_with({{"num_attention_heads", "0"}, {"vocab_size", "0"}, {"rope_theta", "0"}, {"rope_scaling", R"({"rope_type": "linear", "factor": 0.5})"}, {"mlp_bias", "1"}});
  for (const char* part : {"num_attention_heads = 0", "vocab_size = 0", "rope_theta = 0", "rope_scaling.factor = 0.5", "mlp_bias = 1"}) EXPECT_THAT(error, HasSubstr(part));
}

TEST(ModelSpec, RopeContradictionsAndMistakesAreRefused) {
  struct Case {
    Fields changes;
    const char* message;
  };
  const Case cases[] = {
      {{{"rope_theta", "0"}}, "rope_theta = 0 must be a positive number"},
      {{{"rope_theta", "-1"}}, "rope_theta = -1"},
      {{{"rope_theta", R"("10000")"}}, "rope_theta"},
      {{{"rope_theta", "10000"}, {"rope_parameters", R"({"rope_type": "default", "rope_theta": 500000})"}},
       "rope_parameters.rope_theta contradicts rope_theta"},
      {{{"rope_parameters", R"({"rope_type": "default", "rope_theta": 0})"}}, "rope_parameters.rope_theta = 0"},
      {{{"rope_scaling", R"({"type": "linear", "factor": 2})"}, {"rope_parameters", R"({"rope_type": "default"})"}},
       "rope_scaling contradicts rope_parameters"},
      {{{"rope_scaling", R"({"type": "linear", "factor": 2})"}, {"rope_parameters", R"({"rope_type": "linear", "factor": 4})"}},
       "rope_scaling contradicts rope_parameters"},
      {{{"rope_scaling", R"({"type": "linear", "rope_type": "dynamic", "factor": 2})"}},
       "rope_scaling.type = \"linear\" contradicts rope_scaling.rope_type = \"dynamic\""},
      {{{"rope_scaling", R"({"rope_type": "liner", "factor": 2})"}}, "(did you mean 'linear'?)"},
      {{{"rope_scaling", R"({"rope_type": 3})"}}, "rope_scaling.rope_type = 3 is not implemented"},
      {{{"rope_scaling", R"({"rope_type": "linear"})"}}, "rope_scaling.factor is missing"},
      {{{"rope_scaling", R"({"rope_type": "linear", "factor": 0.5})"}}, "rope_scaling.factor = 0.5 must be a number from 1"},
      {{{"rope_scaling", R"({"rope_type": "linear", "factor": "2"})"}}, "rope_scaling.factor = \"2\""},
      {{{"rope_scaling", R"({"rope_type": "linear", "factor": 2, "facto": 3})"}},
       "\"rope_scaling.facto\" = 3 for rope type 'linear' (did you mean 'factor'?)"},
      {{{"rope_scaling", R"({"rope_type": "default", "factor": 2})"}}, "rope_scaling.factor = 2 is not implemented (only 1)"},
      {{{"rope_scaling", R"({"factor": 2})"}}, "rope_scaling.factor = 2 is not implemented (only 1)"},
      {{{"rope_scaling", R"({"rope_type": "linear", "factor": 2, "partial_rotary_factor": 0.5})"}}, "partial_rotary_factor = 0.5"},
      {{{"rope_scaling", R"({"rope_type": "dynamic", "factor": 2, "original_max_position_embeddings": 1024})"}},
       "other than max_position_embeddings"},
      {{{"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4})"}},
       "high_freq_factor must be greater"},
      {{{"rope_scaling", R"({"rope_type": "llama3", "factor": 8})"}}, "low_freq_factor is missing"},
      {{{"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 32})"}}, "beta_fast must be greater"},
      {{{"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "truncate": 1})"}}, "truncate = 1 must be true or false"},
      {{{"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "attn_factor": 2})"}}, "attn_factor = 2 is not implemented"},
      {{{"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 0})"}}, "original_max_position_embeddings = 0"},
      {{{"rope_theta", "1"}, {"rope_scaling", R"({"rope_type": "yarn", "factor": 4})"}}, "greater than 1"},
      {{{"rope_scaling", "[1]"}}, "rope_scaling = [1] must be an object or null"},
      {{{"rope_parameters", R"({"full_attention": {"rope_type": "default"}})"}}, "unknown field \"rope_parameters.full_attention\""},
      {{{"head_dim", "2"}, {"rope_scaling", R"({"rope_type": "dynamic", "factor": 2})"}}, "head_dim of at least 4"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_with(c.changes), HasSubstr(c.message));
}

TEST(ModelSpec, AgreeingFormsTogetherAreAccepted) {
  auto spec = read_with({{"rope_theta", "7000"},
                         {"rope_scaling", R"({"type": "linear", "factor": 2})"},
                         {"rope_parameters", R"({"rope_type": "linear", "factor": 2.0, "rope_theta": 7000.0})"},
                         {"dtype", R"("bfloat16")"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->rope.theta, 7000.0);
  EXPECT_EQ(spec->rope.factor, 2.0);
}

TEST(ModelSpec, ThetaOfOneFormReachesTheOther) {
  auto spec = read_with(
      {{"rope_scaling", R"({"type": "linear", "factor": 2})"}, {"rope_parameters", R"({"rope_type": "linear", "factor": 2, "rope_theta": 7000})"}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->rope.theta, 7000.0);
}

TEST(ModelSpec, BrokenDocumentsAreRefused) {
  for (const char* text : {"", "{", "[]", "null", "3", "{\"a\": 1,}", "{\"a\": 1} x", "\xff", "{\"a\": \"\xc3\"}"}) {
    auto spec = read_text(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kCorrupt) << text;
  }
  EXPECT_THAT(read_text("{\"vocab_size\": 1, \"vocab_size\": 2}").error().message, HasSubstr("\"vocab_size\" stands twice"));
  EXPECT_THAT(read_text("{\"rope_scaling\": {\"a\": 1, \"\\u0061\": 2}}").error().message, HasSubstr("\"a\" stands twice"));
  EXPECT_THAT(read_text(std::string(100000, '[')).error().message, HasSubstr("nested deeper"));
  EXPECT_THAT(read_text("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}").error().message, HasSubstr("nested deeper"));
  TempDir empty;
  auto missing = read_model_spec(empty.path());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

// Errors print hostile text cut and escaped.
TEST(ModelSpec, HostileNamesAndValuesAreShownSafely) {
  const std::string message = error_with({{"evil\\u001b[31m", "\"" + std::string(5000, 'x') + "\""}});
  EXPECT_THAT(message, AllOf(HasSubstr("evil\\x1b[31m"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(message.size(), 1000u);
  Fields many;
  for (int i = 0; i < 1000; ++i) many["unknown_" + std::to_string(i)] = "1";
  EXPECT_THAT(error_with(many), HasSubstr("and 980 more"));
}

// --- generation_config.json ---

constexpr std::int64_t kVocab = 128256;

Result<GenerationDefaults> read_defaults(const std::string& text) {
  TempDir dir;
  (void)dir.write("generation_config.json", text);
  return read_generation_defaults(dir.path(), kVocab);
}

TEST(GenerationDefaults, ReadsTheFieldsThatCount) {
  auto defaults = read_defaults(
      R"({"do_sample": false, "temperature": 0.6, "top_p": 0.9, "top_k": 40.0, "min_p": 0.05, "repetition_penalty": 1.1, "max_new_tokens": 100,
                                    "eos_token_id": [128001, 128009], "whatever": {"x": [1]}})");
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  EXPECT_EQ(defaults->temperature, 0.6);
  EXPECT_EQ(defaults->top_p, 0.9);
  EXPECT_EQ(defaults->top_k, 40);
  EXPECT_EQ(defaults->min_p, 0.05);
  EXPECT_EQ(defaults->repetition_penalty, 1.1);
  EXPECT_EQ(defaults->max_new_tokens, 100);
  EXPECT_THAT(defaults->eos_token_ids, ElementsAre(128001, 128009));
}

TEST(GenerationDefaults, WhatIsPassedOverIsLogged) {
  quire::test::LogCapture others;
  ASSERT_TRUE(read_defaults(R"({"transformers_version": "4.1", "temperature": 0.6, "bad\nname": 1})").ok());
  EXPECT_THAT(others.take(), HasSubstr("generation_config.json: passed over, as vLLM does: transformers_version, bad\\x0aname\n"));
  quire::test::LogCapture none;
  ASSERT_TRUE(read_defaults(R"({"temperature": 0.6})").ok());
  EXPECT_EQ(none.take(), "");
}

TEST(GenerationDefaults, AbsentFileAndNullsGiveNothing) {
  TempDir empty;
  auto absent = read_generation_defaults(empty.path(), kVocab);
  ASSERT_TRUE(absent.ok());
  EXPECT_FALSE(absent->temperature.has_value());
  auto nulls = read_defaults(R"({"temperature": null, "eos_token_id": null, "top_k": null})");
  ASSERT_TRUE(nulls.ok());
  EXPECT_FALSE(nulls->temperature.has_value());
  EXPECT_THAT(nulls->eos_token_ids, IsEmpty());
  auto one = read_defaults(R"({"eos_token_id": 2})");
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->eos_token_ids, ElementsAre(2));
}

TEST(GenerationDefaults, WrongValuesAreRefused) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {{R"({"temperature": -0.1})", "temperature = "},
                        {R"({"temperature": "1"})", "temperature = \"1\""},
                        {R"({"top_p": 0})", "top_p = 0 must be a number above 0 and at most 1"},
                        {R"({"top_p": 1.5})", "top_p = 1.5"},
                        {R"({"top_k": -2})", "top_k = -2"},
                        {R"({"top_k": 1.5})", "top_k = 1.5"},
                        {R"({"min_p": 2})", "min_p = 2"},
                        {R"({"repetition_penalty": 0})", "repetition_penalty = 0"},
                        {R"({"max_new_tokens": 0})", "max_new_tokens = 0"},
                        {R"({"eos_token_id": -1})", "eos_token_id holds -1"},
                        {R"({"eos_token_id": "2"})", "eos_token_id holds \"2\""},
                        {R"({"eos_token_id": 4294967296})", "eos_token_id holds 4294967296"},
                        {R"({"eos_token_id": 128256})", "eos_token_id holds 128256, which is not a token id from 0 to 128255"},
                        {R"({"eos_token_id": [2, 128256]})", "eos_token_id holds 128256"},
                        {R"({"temperature": -1, "top_p": 0})", "top_p = 0"},
                        {R"([])", "must be a JSON object"},
                        {R"({"top_k": 1, "top_k": 2})", "stands twice"}};
  for (const Case& c : cases) {
    auto defaults = read_defaults(c.text);
    ASSERT_FALSE(defaults.ok()) << c.text;
    EXPECT_THAT(defaults.error().message, AllOf(HasSubstr(c.message), HasSubstr("generation_config.json"))) << c.text;
  }
}

// No field takes a value of another kind, whichever it is: nothing in the file is passed over because it cannot be understood.
TEST(GenerationDefaults, NoFieldTakesAnotherKind) {
  for (const std::string_view name : generation_field_names()) {
    for (const char* wrong : {"\"1\"", "true", "{}", "[[1]]", "[\"1\"]", "-1e300", "18446744073709551615"}) {
      const std::string field(name), text = "{\"" + field + "\": " + wrong + "}";
      const auto defaults = read_defaults(text);
      if (field == "temperature" || field == "repetition_penalty") {
        if (std::string(wrong) == "18446744073709551615") continue;  // large, and a number
      }
      ASSERT_FALSE(defaults.ok()) << text;
      EXPECT_THAT(defaults.error().message, AllOf(HasSubstr(field), HasSubstr("--generation-config vllm"))) << text;
    }
  }
}

}  // namespace
}  // namespace quire::model
