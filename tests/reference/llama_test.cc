// The whole-model twin: one layer worked out step by step, and what must hold for any weights. Against Hugging Face: tests/golden.
#include "reference/llama.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kit/seed.h"
#include "reference/logprobs.h"
#include "reference/rounding.h"

namespace quire::reference {
namespace {

model::ModelSpec small_spec() {
  model::ModelSpec spec;
  spec.hidden_size = 12;
  spec.intermediate_size = 20;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 6;  // not hidden / heads: q is wider than the hidden state
  spec.vocab_size = 30;
  spec.max_position_embeddings = 64;
  spec.rms_norm_eps = 1e-5;
  return spec;
}

// Shapes by name, so that a wrong name or a second read of one is noticed.
struct RandomWeights {
  const model::ModelSpec& spec;
  std::mt19937_64 rng = test::seeded_rng();
  std::map<std::string, Matrix> given = {};

  Matrix operator()(const std::string& name) {
    EXPECT_FALSE(given.contains(name)) << name;
    const auto [rows, cols] = shape(name);
    std::normal_distribution<double> normal(name.find("norm") != std::string::npos ? 1.0 : 0.0, 0.3);
    Matrix m(rows, cols);
    for (double& v : m.values) v = normal(rng);
    return given.emplace(name, m).first->second;
  }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> shape(const std::string& name) const {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    const std::int64_t h = spec.hidden_size, q = spec.num_heads * spec.head_dim, kv = spec.num_kv_heads * spec.head_dim;
    std::int64_t rows = h, cols = h;
    if (has("embed_tokens") || has("lm_head")) rows = spec.vocab_size;
    if (has("q_proj")) rows = q;
    if (has("k_proj") || has("v_proj")) rows = kv;
    if (has("o_proj")) cols = q;
    if (has("gate_proj") || has("up_proj")) rows = spec.intermediate_size;
    if (has("down_proj")) cols = spec.intermediate_size;
    if (has("q_norm") || has("k_norm")) return {1, spec.head_dim};
    if (has("norm")) return {1, h};
    if (has(".bias")) return {1, rows};
    return {rows, cols};
  }
};

LlamaReference build(const model::ModelSpec& spec, const LlamaOptions& options = {}) { return LlamaReference(spec, RandomWeights{spec}, options); }

TEST(LlamaReference, AsksForEveryParameterOnce) {
  model::ModelSpec spec = small_spec();
  spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  RandomWeights weights{spec};
  (void)LlamaReference(spec, std::ref(weights));
  EXPECT_EQ(weights.given.size(), 3u + 2 * (2 + 2 * 7));
  spec.tie_word_embeddings = true;
  spec.qkv_bias = spec.o_bias = spec.mlp_bias = false;
  RandomWeights tied{spec};
  (void)LlamaReference(spec, std::ref(tied));
  EXPECT_EQ(tied.given.size(), 2u + 2 * (2 + 7));
  EXPECT_FALSE(tied.given.contains("lm_head.weight"));
}

TEST(LlamaReference, RefusesAWrongShape) {
  const model::ModelSpec spec = small_spec();
  EXPECT_DEATH(LlamaReference(spec, [](const std::string&) { return Matrix(3, 3); }), "model.embed_tokens.weight: 3 x 3, expected 30 x 12");
}

TEST(LlamaReference, IsCausal) {
  const LlamaReference llama = build(small_spec());
  const Matrix a = llama.logits(std::vector<TokenId>{1, 2, 3, 4, 5}), b = llama.logits(std::vector<TokenId>{1, 2, 3, 29, 0, 7});
  for (std::int64_t t = 0; t < 3; ++t)
    for (std::int64_t v = 0; v < 30; ++v) EXPECT_EQ(a.at(t, v), b.at(t, v));
  EXPECT_NE(a.at(3, 0), b.at(3, 0));
  EXPECT_EQ(llama.logits({}).rows, 0);
}

// With the output projections zero, every layer passes the residual on, so the logits are head * norm(embedding).
TEST(LlamaReference, ZeroProjectionsLeaveTheResidualPath) {
  model::ModelSpec spec = small_spec();
  spec.tie_word_embeddings = true;
  RandomWeights weights{spec};
  const LlamaReference llama(spec, [&](const std::string& name) {
    Matrix m = weights(name);
    if (name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos) m = Matrix(m.rows, m.cols);
    return m;
  });
  const Matrix got = llama.logits(std::vector<TokenId>{7});
  const Matrix& table = weights.given.at("model.embed_tokens.weight");
  const Matrix& norm = weights.given.at("model.norm.weight");
  double mean = 1e-5;
  for (const double v : table.row(7)) mean += v * v / 12;
  for (std::int64_t v = 0; v < 30; ++v) {
    double want = 0;
    for (std::int64_t i = 0; i < 12; ++i) want += table.at(v, i) * table.at(7, i) / std::sqrt(mean) * norm.at(0, i);
    EXPECT_NEAR(got.at(0, v), want, 1e-12);
  }
}

TEST(LlamaReference, BiasesPositionsAndRopeMatter) {
  model::ModelSpec spec = small_spec();
  const Matrix plain = build(spec).logits(std::vector<TokenId>{3, 3, 5});
  EXPECT_NE(plain.at(0, 0), plain.at(2, 0));
  spec.rope.theta = 50;
  const Matrix turned = build(spec).logits(std::vector<TokenId>{3, 3, 5});
  EXPECT_EQ(plain.at(0, 0), turned.at(0, 0)) << "position 0 is not turned";
  EXPECT_NE(plain.at(2, 0), turned.at(2, 0));
}

// A window hides keys from the layer that has it, and from no other.
TEST(LlamaReference, AWindowForgets) {
  model::ModelSpec spec = small_spec();
  spec.num_layers = 1;
  spec.masks = {{.window = 2}};
  const LlamaReference llama = build(spec);
  const Matrix a = llama.logits(std::vector<TokenId>{1, 2, 3, 4}), b = llama.logits(std::vector<TokenId>{9, 2, 3, 4});
  EXPECT_NE(a.at(1, 0), b.at(1, 0));
  for (std::int64_t t = 2; t < 4; ++t)
    for (std::int64_t v = 0; v < 30; ++v) EXPECT_EQ(a.at(t, v), b.at(t, v)) << t;
  spec.num_layers = 2;
  spec.masks = {{.window = 2}, {}};
  const LlamaReference two = build(spec);
  EXPECT_NE(two.logits(std::vector<TokenId>{1, 2, 3, 4}).at(3, 0), two.logits(std::vector<TokenId>{9, 2, 3, 4}).at(3, 0));
}

// What scales cancel: branch norms forget how large a block's output is, norms of q and k how large those are.
TEST(LlamaReference, NormsForgetTheirInputsSize) {
  model::ModelSpec spec = small_spec();
  spec.rms_norm_eps = 1e-12;
  spec.branch_norms = spec.qk_norm = true;
  const std::vector<TokenId> tokens = {3, 7, 5, 1};
  RandomWeights weights{spec};
  const Matrix plain = LlamaReference(spec, std::ref(weights)).logits(tokens);
  EXPECT_TRUE(weights.given.contains("model.layers.1.pre_feedforward_layernorm.weight"));
  for (const char* scaled : {"o_proj.weight", "down_proj.weight", "q_proj.weight", "k_proj.weight"}) {
    const Matrix same = LlamaReference(spec, [&](const std::string& name) {
                          Matrix m = weights.given.at(name);
                          if (name.ends_with(scaled))
                            for (double& v : m.values) v *= 4.0;
                          return m;
                        }).logits(tokens);
    for (std::size_t i = 0; i < plain.values.size(); ++i) EXPECT_NEAR(same.values[i], plain.values[i], 1e-9) << scaled;
  }
}

TEST(LlamaReference, OffsetsScalesAndCaps) {
  const std::vector<TokenId> tokens = {3, 7, 5, 1};
  model::ModelSpec spec = small_spec();
  RandomWeights weights{spec};
  const Matrix plain = LlamaReference(spec, std::ref(weights)).logits(tokens);
  // Norm weights that are one less, with an offset of one.
  model::ModelSpec offset = spec;
  offset.norm_weight_offset = 1.0;
  const Matrix same = LlamaReference(offset, [&](const std::string& name) {
                        Matrix m = weights.given.at(name);
                        if (name.find("norm") != std::string::npos)
                          for (double& v : m.values) v -= 1.0;
                        return m;
                      }).logits(tokens);
  // A scaled table, where the head has one of its own.
  model::ModelSpec scale = spec;
  scale.embedding_scale = 0.5;
  const Matrix halved = LlamaReference(scale, [&](const std::string& name) {
                          Matrix m = weights.given.at(name);
                          if (name == "model.embed_tokens.weight")
                            for (double& v : m.values) v *= 2.0;
                          return m;
                        }).logits(tokens);
  model::ModelSpec cap = spec;
  cap.final_soft_cap = 3.0;
  const Matrix capped = LlamaReference(cap, [&](const std::string& name) { return weights.given.at(name); }).logits(tokens);
  for (std::size_t i = 0; i < plain.values.size(); ++i) {
    EXPECT_NEAR(same.values[i], plain.values[i], 1e-9);
    EXPECT_NEAR(halved.values[i], plain.values[i], 1e-9);
    EXPECT_NEAR(capped.values[i], 3.0 * std::tanh(plain.values[i] / 3.0), 1e-12);
  }
}

TEST(LlamaReference, DynamicRopeFollowsTheServedLength) {
  model::ModelSpec spec = small_spec();
  spec.rope.kind = model::RopeKind::kDynamic;
  spec.rope.factor = 4;
  const std::vector<TokenId> tokens = {3, 4, 5};
  const double plain = build(small_spec()).logits(tokens).at(2, 0);
  EXPECT_EQ(build(spec).logits(tokens).at(2, 0), plain);
  EXPECT_NE(build(spec, {.max_model_len = 128}).logits(tokens).at(2, 0), plain);
}

TEST(LlamaReference, RoundedCacheMovesLogprobsByAboutItsPrecision) {
  const std::vector<TokenId> tokens = {1, 9, 4, 22, 17, 3, 8, 8, 1};
  const auto exact = log_softmax(build(small_spec()).logits(tokens).row(8));
  double previous = 0.0;
  for (const auto& [dtype, roundoff] : {std::pair(DType::kF32, 0x1p-24), std::pair(DType::kF16, 0x1p-11), std::pair(DType::kBF16, 0x1p-8)}) {
    const auto rounded = log_softmax(build(small_spec(), {.kv_dtype = dtype}).logits(tokens).row(8));
    double largest = 0.0;
    for (std::size_t i = 0; i < exact.size(); ++i) largest = std::max(largest, std::fabs(exact[i] - rounded[i]));
    EXPECT_GT(largest, previous);
    EXPECT_LT(largest, 20 * roundoff);
    previous = largest;
  }
}

}  // namespace
}  // namespace quire::reference
