// A GGUF file's metadata as a ModelSpec: what every key becomes, and every way to be refused by name.
#include "model/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <cmath>
#include <functional>

#include "base/json.h"
#include "gguf/end_tokens.h"
#include "kit/gguf_model.h"
#include "kit/temp_dir.h"
#include "model/gguf_architectures.h"
#include "reference/rope.h"

namespace quire::model {
namespace {

using ::quire::test::GgufWriter;
using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char kGsmTiny[] = QUIRE_SOURCE_DIR "/models/gsm-tiny";
using Change = std::function<void(GgufWriter&)>;

// Hidden 8, 2 heads of 4, one layer's worth of keys; matrices of `type`.
GgufWriter small(std::uint32_t type = 0, const std::set<std::string>& without = {}) {
  GgufWriter w;
  w.text("general.architecture", "llama");
  for (const auto& [key, value] : {std::pair("block_count", 1), {"context_length", 64}, {"embedding_length", 8}, {"feed_forward_length", 12}, {"attention.head_count", 2}})
    if (!without.contains(key)) w.u32("llama." + std::string(key), static_cast<std::uint32_t>(value));
  if (!without.contains("attention.layer_norm_rms_epsilon")) w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (!without.contains("tokens")) w.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d"});
  w.tensor("token_embd.weight", {8, 4}, type, std::string(type == 0 ? 128 : 64, '\0'));
  return w;
}

Result<ModelSpec> spec_of(const std::string& bytes) {
  auto file = gguf::File::parse(std::as_bytes(std::span(bytes)), "m.gguf");
  if (!file.ok()) return file.error();
  return gguf_model_spec(file.value());
}
Result<ModelSpec> spec_with(const Change& change) {
  GgufWriter w = small();
  change(w);
  return spec_of(w.file());
}
std::string refusal(const Change& change) {
  const auto spec = spec_with(change);
  return spec.ok() ? "accepted" : spec.error().message;
}
std::string refusal_without(const char* key) {
  const auto spec = spec_of(small(0, {key}).file());
  return spec.ok() ? "accepted" : spec.error().message;
}

TEST(GgufConfig, SaysWhatTheFolderSays) {
  const ModelSpec folder = read_model_spec(kGsmTiny).value();
  for (const auto& [type, dtype] : {std::pair("F32", DType::kF32), {"F16", DType::kF16}, {"BF16", DType::kBF16}, {"Q8_0", DType::kF16}, {"Q4_K", DType::kF16}}) {
    const auto made = spec_of(test::gguf_file_of(test::gguf_model(kGsmTiny, type)));
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->architecture, folder.architecture);
    EXPECT_EQ(made->model_type, folder.model_type);
    EXPECT_EQ(made->hidden_size, folder.hidden_size);
    EXPECT_EQ(made->intermediate_size, folder.intermediate_size);
    EXPECT_EQ(made->num_layers, folder.num_layers);
    EXPECT_EQ(made->num_heads, folder.num_heads);
    EXPECT_EQ(made->num_kv_heads, folder.num_kv_heads);
    EXPECT_EQ(made->head_dim, folder.head_dim);
    EXPECT_EQ(made->vocab_size, folder.vocab_size);
    EXPECT_EQ(made->max_position_embeddings, folder.max_position_embeddings);
    EXPECT_EQ(made->rms_norm_eps, folder.rms_norm_eps);  // the double of 1e-05, not of the float32 nearest to it
    EXPECT_EQ(made->rope.theta, folder.rope.theta);
    EXPECT_EQ(made->rope.kind, RopeKind::kDefault);
    EXPECT_EQ(made->tie_word_embeddings, folder.tie_word_embeddings);
    EXPECT_FALSE(made->qkv_bias || made->o_bias || made->mlp_bias);
    EXPECT_EQ(made->eos_token_ids, read_generation_defaults(kGsmTiny, folder.vocab_size).value().eos_token_ids);
    EXPECT_EQ(made->bos_token_id, folder.bos_token_id);
    EXPECT_EQ(made->quant.method, QuantMethod::kNone);
    EXPECT_EQ(made->dtype, dtype) << type;
    ASSERT_TRUE(made->gguf.has_value());
    EXPECT_EQ(made->gguf->matrices, "43 " + std::string(type));
    EXPECT_EQ(made->gguf->quantised, std::string(type).starts_with("Q"));
  }
  EXPECT_FALSE(folder.gguf.has_value());
}

TEST(GgufConfig, IsOneConfigJson) {
  TempDir dir;
  const auto text = read_config_json(dir.write("m.gguf", small().file()));
  ASSERT_TRUE(text.ok()) << text.error().message;
  const auto config = parse_json(text.value()).value();
  EXPECT_EQ(config.at("rms_norm_eps").as_double(), 1e-05);
  EXPECT_EQ(config.at("vocab_size").to_number<int>(), 4);
  EXPECT_EQ(config.at("architectures").at(0).as_string(), "LlamaForCausalLM");
}

TEST(GgufConfig, EveryRequiredKeyIsNamedWhenMissing) {
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon"})
    EXPECT_THAT(refusal_without(key), AllOf(HasSubstr("m.gguf: "), HasSubstr("llama." + std::string(key) + " is missing"))) << key;
  EXPECT_THAT(refusal_without("tokens"), HasSubstr("vocab_size is missing"));
}

TEST(GgufConfig, UnknownArchitecturesAndKeysAreRefusedByName) {
  GgufWriter other;
  other.text("general.architecture", "lama");
  EXPECT_THAT(spec_of(other.file()).error().message, AllOf(HasSubstr("general.architecture = \"lama\""), HasSubstr("did you mean 'llama'")));
  EXPECT_THAT(spec_of(GgufWriter().file()).error().message, HasSubstr("general.architecture is missing"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.f32("llama.attention.head_count_kw", 2); }), AllOf(HasSubstr("unknown metadata key \"llama.attention.head_count_kw\""), HasSubstr("did you mean 'attention.head_count_kv'")));
  EXPECT_EQ(refusal([](GgufWriter& w) { w.text("general.description", "x").text("somebody.note", "x").u32("split.count", 1); }), "accepted");
  EXPECT_THAT(refusal([](GgufWriter& w) { w.text("general.type", "adapter"); }), HasSubstr("general.type = \"adapter\" is no model"));
}

TEST(GgufConfig, WhatWouldChangeNumbersIsRefused) {
  for (const auto& [key, value] : {std::pair("expert_count", 8), {"rope.dimension_count", 2}, {"attention.value_length", 8}, {"nextn_predict_layers", 1}})
    EXPECT_THAT(refusal([&](GgufWriter& w) { w.u32("llama." + std::string(key), static_cast<std::uint32_t>(value)); }), HasSubstr("llama." + std::string(key))) << key;
  for (const char* key : {"logit_scale", "embedding_scale", "residual_scale", "rope.scaling.attn_factor", "rope.scale_linear", "attention.max_alibi_bias"})
    EXPECT_THAT(refusal([&](GgufWriter& w) { w.f32("llama." + std::string(key), 2.5f); }), HasSubstr("llama." + std::string(key) + " = 2.5")) << key;
  EXPECT_THAT(refusal([](GgufWriter& w) { w.boolean("llama.attention.causal", false); }), HasSubstr("llama.attention.causal = false is not implemented (only absent or true)"));
  EXPECT_EQ(refusal([](GgufWriter& w) { w.u32("llama.expert_count", 0).u32("llama.rope.dimension_count", 4).u32("llama.attention.value_length", 4).f32("llama.logit_scale", 1).boolean("llama.attention.causal", true); }), "accepted");
}

TEST(GgufConfig, WrongKindsAndRangesAreNamed) {
  EXPECT_THAT(refusal([](GgufWriter& w) { w.text("llama.attention.head_count_kv", "2"); }), HasSubstr("llama.attention.head_count_kv = \"2\" must be a finite number"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.f32("llama.rope.freq_base", INFINITY); }), HasSubstr("llama.rope.freq_base"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.u32("llama.attention.head_count_kv", 3); }), HasSubstr("num_attention_heads = 2 is not a multiple of num_key_value_heads = 3"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.i32s("llama.attention.head_count_kv", {1, 2}); }), HasSubstr("one number for all layers"));
  const auto alike = spec_with([](GgufWriter& w) { w.i32s("llama.attention.head_count_kv", {1, 1}); });
  ASSERT_TRUE(alike.ok()) << alike.error().message;
  EXPECT_EQ(alike->num_kv_heads, 1);
  EXPECT_THAT(refusal([](GgufWriter& w) { w.text("tokenizer.ggml.eos_token_id", "x"); }), HasSubstr("tokenizer.ggml.eos_token_id"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.u32("tokenizer.ggml.eos_token_id", 4); }), HasSubstr("eos_token_id holds 4"));
}

TEST(GgufConfig, EndTokensAreAllThatTheFileNames) {
  const auto spec = spec_with([](GgufWriter& w) { w.u32("tokenizer.ggml.eos_token_id", 3).u32("tokenizer.ggml.eot_token_id", 1).u32("tokenizer.ggml.eom_token_id", 3).u32("tokenizer.ggml.bos_token_id", 2); });
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(3, 1));
  EXPECT_EQ(spec->bos_token_id, 2);
}

// A token whose text is known to end a turn ends it though no key names it, of whatever type the file says it is.
TEST(GgufConfig, EndTokensAreThoseOfTheVocabularyToo) {
  const auto ends = [](const std::string& token, std::int32_t type, bool with_types = true) {
    GgufWriter w = small(0, {"tokens"});
    w.texts("tokenizer.ggml.tokens", {"a", token, "c", "<eos>"}).u32("tokenizer.ggml.eos_token_id", 3);
    if (with_types) w.i32s("tokenizer.ggml.token_type", {1, type, 1, 3});
    const auto spec = spec_of(w.file());
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    return spec->eos_token_ids;
  };
  for (const std::string_view token : gguf::kEndTokens) {
    for (const std::int32_t type : {1, 3, 4}) EXPECT_THAT(ends(std::string(token), type), ElementsAre(3, 1)) << token;
    EXPECT_THAT(ends(std::string(token), 3, false), ElementsAre(3, 1)) << token;
  }
  EXPECT_THAT(ends("<|im_start|>", 3), ElementsAre(3));
}

// Each word is looked for once, however many tokens repeat it (which the tokenizer refuses later).
TEST(GgufConfig, ManyEndTokensTakeNoLonger) {
  GgufWriter w = small(0, {"tokens"});
  const std::size_t many = 1u << 20;
  w.texts("tokenizer.ggml.tokens", std::vector<std::string>(many, "<|im_end|>")).i32s("tokenizer.ggml.token_type", std::vector<std::int32_t>(many, 3));
  const auto spec = spec_of(w.file());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(0));
}

TEST(GgufConfig, SamplingDefaultsComeFromTheFile) {
  const auto defaults = [](const Change& change) {
    GgufWriter w = small();
    change(w);
    TempDir dir;
    return read_generation_defaults(dir.write("m.gguf", w.file()), 4);
  };
  const auto none = defaults([](GgufWriter&) {}).value();
  EXPECT_FALSE(none.temperature || none.top_p || none.min_p || none.repetition_penalty || none.top_k);
  const auto all = defaults([](GgufWriter& w) {
    w.f32("general.sampling.temp", 0.7f).u32("general.sampling.top_k", 20).f32("general.sampling.top_p", 0.8f).f32("general.sampling.min_p", 0.05f).f32("general.sampling.penalty_repeat", 1.05f).u32("general.sampling.mirostat", 0);
  });
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->temperature, 0.7);  // the decimal that the file's maker wrote, not the float nearest to it
  EXPECT_EQ(all->top_k, 20);
  EXPECT_EQ(all->top_p, 0.8);
  EXPECT_EQ(all->min_p, 0.05);
  EXPECT_EQ(all->repetition_penalty, 1.05);
  EXPECT_THAT(defaults([](GgufWriter& w) { w.f32("general.sampling.temp", -1); }).error().message, AllOf(HasSubstr("m.gguf: temperature = -1"), HasSubstr("--generation-config vllm")));
  EXPECT_THAT(defaults([](GgufWriter& w) { w.text("general.sampling.top_p", "x"); }).error().message, HasSubstr("top_p = "));
}

// The list of tokens and the rows of the embedding say how many there are; a key that says otherwise sizes nothing.
TEST(GgufConfig, TokensAreCountedInTheFile) {
  const auto vocab_size = [](const Change& change) { return spec_with(change).value().vocab_size; };
  EXPECT_EQ(vocab_size([](GgufWriter&) {}), 4);
  EXPECT_EQ(vocab_size([](GgufWriter& w) { w.u32("llama.vocab_size", 4); }), 4);
  EXPECT_EQ(vocab_size([](GgufWriter& w) { w.u32("llama.vocab_size", 3); }), 4);
}

// Which layers have the window: a period, or a flag for each of them. One number repeated is no period.
TEST(GgufConfig, WindowsByPeriodOrByLayer) {
  const auto layers = [](const std::function<void(GgufWriter&)>& change) {
    GgufWriter w;
    w.text("general.architecture", "gemma3").f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f).u32("gemma3.attention.sliding_window", 16).texts("tokenizer.ggml.tokens", {"a", "b", "c", "d"});
    for (const auto& [key, value] : {std::pair("block_count", 4), {"context_length", 64}, {"embedding_length", 8}, {"feed_forward_length", 12}, {"attention.head_count", 2}, {"attention.head_count_kv", 1}, {"attention.key_length", 4}}) w.u32("gemma3." + std::string(key), static_cast<std::uint32_t>(value));
    change(w);
    const auto spec = spec_of(w.file());
    if (!spec.ok()) return spec.error().message;
    std::string out;
    for (int i = 0; i < 4; ++i) out += spec->masks.empty() || spec->masks[static_cast<std::size_t>(i)].window == 0 ? 'g' : 's';
    return out;
  };
  const std::string key = "gemma3.attention.sliding_window_pattern";
  EXPECT_EQ(layers([](GgufWriter&) {}), "ssss");
  EXPECT_EQ(layers([&](GgufWriter& w) { w.u32(key, 2); }), "sgsg");
  EXPECT_EQ(layers([&](GgufWriter& w) { w.i32s(key, {1, 1, 1, 1}); }), "ssss");
  EXPECT_EQ(layers([&](GgufWriter& w) { w.i32s(key, {0, 0, 1, 0}); }), "ggsg");
  EXPECT_THAT(layers([&](GgufWriter& w) { w.i32s(key, {2, 2, 2, 2}); }), AllOf(HasSubstr(key), HasSubstr("must be one number, or 0 or 1 for each layer")));
  EXPECT_THAT(layers([&](GgufWriter& w) { w.i32s(key, {1, 0}); }), HasSubstr("must list a kind for each of the 4 layers"));
}

TEST(GgufConfig, RotaryScaling) {
  const auto linear = spec_with([](GgufWriter& w) { w.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4); });
  ASSERT_TRUE(linear.ok()) << linear.error().message;
  EXPECT_EQ(linear->rope.kind, RopeKind::kLinear);
  EXPECT_EQ(linear->rope.factor, 4.0);
  const auto yarn = spec_with([](GgufWriter& w) {
    w.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 2).u32("llama.rope.scaling.original_context_length", 32).f32("llama.rope.scaling.yarn_beta_fast", 16).f32("llama.rope.freq_base", 5e5f);
  });
  ASSERT_TRUE(yarn.ok()) << yarn.error().message;
  EXPECT_EQ(yarn->rope.kind, RopeKind::kYarn);
  EXPECT_EQ(yarn->rope.original_max_position_embeddings, 32);
  EXPECT_EQ(yarn->rope.beta_fast, 16.0);
  EXPECT_EQ(yarn->rope.theta, 5e5);
  EXPECT_EQ(spec_with([](GgufWriter& w) { w.f32("llama.rope.scaling.factor", 8); })->rope.kind, RopeKind::kLinear);
  EXPECT_EQ(spec_with([](GgufWriter& w) { w.text("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 8); })->rope.kind, RopeKind::kDefault);
  EXPECT_THAT(refusal([](GgufWriter& w) { w.text("llama.rope.scaling.type", "longrope"); }), HasSubstr("llama.rope.scaling.type = \"longrope\" is not implemented"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.text("llama.rope.scaling.type", "yarn"); }), HasSubstr("llama.rope.scaling.factor is missing"));
}

TEST(GgufConfig, RotaryDivisors) {
  const auto with = [](const std::string& bytes, std::uint64_t length, std::uint32_t type = 0) { return [=](GgufWriter& w) { w.tensor("rope_freqs.weight", {length}, type, bytes); }; };
  const std::string two = test::raw_bytes(1.0f) + test::raw_bytes(8.0f);
  const auto spec = spec_with(with(two, 2));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_THAT(spec->rope.divisors, ElementsAre(1.0, 8.0));
  const RopeTable table = rope_table(spec->rope, 4, 64, 64), plain = rope_table(RopeSpec{}, 4, 64, 64);
  EXPECT_EQ(table.inv_freq[0], plain.inv_freq[0]);
  EXPECT_EQ(table.inv_freq[1], plain.inv_freq[1] / 8.0);
  EXPECT_EQ(reference::rotation_of({spec->rope, 4, 64, 64}).frequencies, table.inv_freq);
  EXPECT_THAT(refusal(with(test::raw_bytes(1.0f), 1)), HasSubstr("tensor \"rope_freqs.weight\" must hold 2 numbers of type F32"));
  EXPECT_THAT(refusal(with(std::string(4, 'x'), 2, 1)), HasSubstr("must hold 2 numbers of type F32"));
  EXPECT_THAT(refusal(with(test::raw_bytes(1.0f) + test::raw_bytes(0.0f), 2)), HasSubstr("finite and above 0"));
  EXPECT_THAT(refusal([&](GgufWriter& w) { with(two, 2)(w), w.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4); }), HasSubstr("over rope.scaling.type is not implemented"));
}

TEST(GgufConfig, BiasesAndTheOutputMatrixShowInTheTensors) {
  EXPECT_TRUE(spec_of(small().file())->tie_word_embeddings);
  const auto spec = spec_with([](GgufWriter& w) { w.tensor("output.weight", {8, 4}, 0, std::string(128, '\0')).tensor("blk.0.attn_q.bias", {8}, 0, std::string(32, '\0')).tensor("blk.0.ffn_gate.bias", {12}, 0, std::string(48, '\0')); });
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_FALSE(spec->tie_word_embeddings);
  EXPECT_TRUE(spec->qkv_bias && spec->o_bias);
  EXPECT_TRUE(spec->mlp_bias);
}

TEST(GgufConfig, MatricesOfTwoPlainTypesAreServedInFloat32) {
  GgufWriter w = small(1);
  w.tensor("output.weight", {8, 4}, 30, std::string(64, '\0'));
  const auto spec = spec_of(w.file());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->dtype, DType::kF32);
  EXPECT_EQ(spec->gguf->matrices, "1 F16, 1 BF16");
}

TEST(GgufConfig, OldBlockFormatsAreRefused) {
  const auto old = [](const std::string& type) {
    test::GgufModel model = test::gguf_model(kGsmTiny, type);
    std::string bytes = test::gguf_file_of(model);
    const std::string key = GgufWriter::string("general.quantization_version") + test::raw_bytes(std::uint32_t{4});
    bytes[bytes.find(key) + key.size()] = 1;
    return spec_of(bytes);
  };
  EXPECT_THAT(old("Q4_0").error().message, HasSubstr("general.quantization_version = 1: blocks of version 2 are read"));
  EXPECT_TRUE(old("F16").ok());
}

TEST(GgufConfig, AFolderOfFilesNamesOne) {
  TempDir dir;
  (void)dir.write("b.gguf", "x");
  (void)dir.write("a.gguf", "x");
  EXPECT_THAT(read_model_spec(dir.path()).error().message, AllOf(HasSubstr("no such file, so this is no model folder"), HasSubstr("it holds 2 GGUF files: give the file itself as MODEL, \"a.gguf\"")));
}

// The page shows every row of the tables.
TEST(GgufConfig, PageNamesEveryKey) {
  const std::string page = gguf_markdown();
  for (const GgufKey& key : gguf_shared_keys()) EXPECT_THAT(page, HasSubstr("| `ARCH." + std::string(key.key) + "` |"));
  for (const GgufArchitecture& a : gguf_architectures()) {
    EXPECT_THAT(page, HasSubstr("### " + std::string(a.name)));
    for (const GgufKey& key : a.keys) EXPECT_THAT(page, HasSubstr("| `" + std::string(a.name) + "." + std::string(key.key) + "` |"));
  }
}

}  // namespace
}  // namespace quire::model
