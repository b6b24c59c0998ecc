// Every family against the float64 model, whole prompts, chunks and decoding, in both attention rows; recorded and replayed; and each of its
// differences shows.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kit/family_specs.h"
#include "model/families.h"
#include "model_layers/forward_check.h"

namespace quire {
namespace {

using test::LayersCase;

TEST(Families, EachHasACase) {
  ASSERT_EQ(test::family_cases().size(), model::families().size());
  for (std::size_t i = 0; i < model::families().size(); ++i) EXPECT_EQ(model::families()[i].architecture, test::family_cases()[i].architecture);
}

TEST(Families, Float32) {
  for (const test::FamilyCase& family : test::family_cases())
    for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"})
      test::check_forward({.spec = test::family_spec(family), .backend = backend, .threads = 2}, std::string(family.architecture) + ", " + backend);
}

TEST(Families, BFloat16) {
  for (const test::FamilyCase& family : test::family_cases())
    for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"}) {
      LayersCase c{.spec = test::family_spec(family), .dtype = DType::kBF16, .backend = backend, .block_size = 32};
      test::check_forward(c, std::string(family.architecture) + " in bfloat16, float32 cache, " + backend);
      c.kv_dtype = DType::kBF16;
      test::check_forward(c, std::string(family.architecture) + " in bfloat16, " + backend);
    }
}

TEST(Families, ReplayEqualsEagerBitForBit) {
  for (const test::FamilyCase& family : test::family_cases())
    for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"})
      for (const DType kv : {DType::kBF16, DType::kFp8E4m3})
        test::check_replays({.spec = test::family_spec(family), .dtype = DType::kBF16, .kv_dtype = kv, .backend = backend}, std::string(family.architecture) + ", " + backend + ", KV " + dtype_name(kv));
}

// The float64 model without one difference is another model: the comparisons above would not pass without it.
TEST(Families, EveryDifferenceShows) {
  struct Difference {
    const char* architecture;
    const char* what;
    std::function<void(model::ModelSpec&)> undo;
  };
  const Difference differences[] = {
      {"MistralForCausalLM", "the window's last key", [](model::ModelSpec& s) { for (auto& m : s.masks) ++m.window; }},
      {"Qwen2ForCausalLM", "which layers have windows", [](model::ModelSpec& s) { std::swap(s.masks[0], s.masks[1]); }},
      {"Qwen2ForCausalLM", "biases", [](model::ModelSpec& s) { s.qkv_bias = false; }},
      {"Qwen3ForCausalLM", "norms of q and k", [](model::ModelSpec& s) { s.qk_norm = false; }},
      {"Qwen3ForCausalLM", "o's bias", [](model::ModelSpec& s) { s.o_bias = false; }},
      {"Gemma2ForCausalLM", "GELU", [](model::ModelSpec& s) { s.activation = model::Activation::kSilu; }},
      {"Gemma2ForCausalLM", "soft cap of scores", [](model::ModelSpec& s) { for (auto& m : s.masks) m.soft_cap = 0.0; }},
      {"Gemma2ForCausalLM", "soft cap of logits", [](model::ModelSpec& s) { s.final_soft_cap = 0.0; }},
      {"Gemma2ForCausalLM", "the scale of scores", [](model::ModelSpec& s) { s.query_pre_attn_scalar.reset(); }},
      {"Gemma2ForCausalLM", "the scale of embeddings", [](model::ModelSpec& s) { s.embedding_scale = 1.0; }},
      {"Gemma2ForCausalLM", "branch norms", [](model::ModelSpec& s) { s.branch_norms = false; }},
      {"Gemma3ForCausalLM", "rope of layers with windows", [](model::ModelSpec& s) { s.local_rope.reset(); }},
      {"Gemma3ForCausalLM", "rope of the other layers", [](model::ModelSpec& s) { s.rope = *s.local_rope; }},
  };
  std::vector<TokenId> tokens;
  for (int t = 0; t < 40; ++t) tokens.push_back(t * 37 % 91);
  for (const Difference& d : differences) {
    LayersCase c{.spec = test::family_spec(d.architecture)};
    const reference::Matrix right = test::reference_of(c).logits(tokens);
    d.undo(c.spec);
    const reference::Matrix wrong = test::reference_of(c).logits(tokens);
    double largest = 0.0, most = 0.0;
    for (std::size_t i = 0; i < right.values.size(); ++i) {
      largest = std::max(largest, std::fabs(right.values[i]));
      most = std::max(most, std::fabs(right.values[i] - wrong.values[i]));
    }
    EXPECT_GT(most, 0.01 * largest) << d.architecture << " without " << d.what;
  }
}

}  // namespace
}  // namespace quire
