// The float64 reference against Hugging Face transformers: rope scalings, biases, head counts on small random models; the shipped model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "golden/golden_files.h"

namespace quire::golden {
namespace {

const std::string kFolder = QUIRE_SOURCE_DIR "/tests/golden";
const std::string kGsmTiny = QUIRE_SOURCE_DIR "/models/gsm-tiny", kGsmTinyGolden = kFolder + "/gsm_tiny.json";

std::vector<std::vector<double>> logprobs_of(const reference::LlamaReference& llama, std::span<const TokenId> ids) {
  const reference::Matrix logits = llama.logits(ids);
  std::vector<std::vector<double>> out;
  for (std::int64_t p = 0; p < logits.rows; ++p) out.push_back(reference::log_softmax(logits.row(p)));
  return out;
}

// Calls visit(position, token, golden log-probability) for every number of the golden.
template <class Visit>
void for_each_logprob(const ScoredPrompt& prompt, const Visit& visit) {
  for (std::size_t p = 0; p < prompt.next.size(); ++p) visit(p, prompt.ids[p + 1], prompt.next[p]);
  for (const auto& [position, scores] : prompt.top)
    for (const auto& score : scores) visit(static_cast<std::size_t>(position), score.token, score.logprob);
}

void compare_prompt(const reference::LlamaReference& llama, const ScoredPrompt& prompt, Differences& total) {
  const auto ours = logprobs_of(llama, prompt.ids);
  for_each_logprob(prompt, [&](std::size_t p, TokenId token, double golden) { total.add(ours[p][static_cast<std::size_t>(token)] - golden); });
  for (const auto& [position, scores] : prompt.top) {
    const auto top = reference::top_logprobs(ours[static_cast<std::size_t>(position)], static_cast<std::int32_t>(scores.size()));
    for (std::size_t i = 0; i < scores.size(); ++i)
      EXPECT_NEAR(top[i].logprob, scores[i].logprob, kFloat32Promise) << "position " << position << ", place " << i;
  }
}

class SmallModel : public ::testing::TestWithParam<std::string> {};

TEST_P(SmallModel, LogprobsEqualHuggingFaces) {
  const std::string folder = kFolder + "/models/" + GetParam();
  const SmallModelGolden golden = read_small_model(folder + "/logprobs.json");
  const LoadedModel loaded = load_reference(folder, {.max_model_len = golden.max_model_len});
  Differences d;
  for (const ScoredPrompt& prompt : golden.scored) compare_prompt(loaded.llama, prompt, d);
  RecordProperty("largest_difference", std::to_string(d.largest));
  EXPECT_LE(d.largest, kFloat32Promise);
  EXPECT_GT(d.count, 1000);
}

double largest_difference(const reference::LlamaReference& llama, const ScoredPrompt& prompt) {
  Differences d;
  const auto ours = logprobs_of(llama, prompt.ids);
  for_each_logprob(prompt, [&](std::size_t p, TokenId token, double logprob) { d.add(ours[p][static_cast<std::size_t>(token)] - logprob); });
  return d.largest;
}

// That the goldens can tell: with plain rope of the same theta, or yarn without its attention scale, the numbers are far off.
TEST_P(SmallModel, AnotherRopeIsFarOff) {
  const std::string folder = kFolder + "/models/" + GetParam();
  const SmallModelGolden golden = read_small_model(folder + "/logprobs.json");
  const LoadedModel loaded = load_reference(folder, {.max_model_len = golden.max_model_len});
  model::RopeSpec other = loaded.spec.rope;
  if (other.kind == model::RopeKind::kDefault) {
    other.theta *= 2;
  } else {
    other.kind = model::RopeKind::kDefault;
  }
  EXPECT_GT(largest_difference(load_reference(folder, {}, [&](model::ModelSpec& s) { s.rope = other; }).llama, golden.scored.back()), 100 * kFloat32Promise);
  if (loaded.spec.rope.kind != model::RopeKind::kYarn) return;
  other = loaded.spec.rope;
  other.attention_factor = 1.0;
  EXPECT_GT(largest_difference(load_reference(folder, {}, [&](model::ModelSpec& s) { s.rope = other; }).llama, golden.scored.back()), 100 * kFloat32Promise);
}

// The same of what families do differently: each change alone makes another model.
TEST(Families, GoldensTellEachDifference) {
  struct Change {
    const char* model;
    const char* what;
    std::function<void(model::ModelSpec&)> make;
  };
  const Change changes[] = {
      {"mistral", "a window one key longer", [](model::ModelSpec& s) { for (auto& m : s.masks) ++m.window; }},
      {"qwen2", "a window one key shorter", [](model::ModelSpec& s) { for (auto& m : s.masks) m.window -= m.window > 0 ? 1 : 0; }},
      {"qwen2", "windows in the first layers", [](model::ModelSpec& s) { std::ranges::reverse(s.masks); }},
      {"qwen2", "no biases", [](model::ModelSpec& s) { s.qkv_bias = false; }},
      {"qwen3", "no norms of q and k", [](model::ModelSpec& s) { s.qk_norm = false; }},
      {"gemma2", "SiLU", [](model::ModelSpec& s) { s.activation = model::Activation::kSilu; }},
      {"gemma2", "scores without a cap", [](model::ModelSpec& s) { for (auto& m : s.masks) m.soft_cap = 0.0; }},
      {"gemma2", "logits without a cap", [](model::ModelSpec& s) { s.final_soft_cap = 0.0; }},
      {"gemma2", "scores by head_dim", [](model::ModelSpec& s) { s.query_pre_attn_scalar.reset(); }},
      {"gemma2", "w instead of 1 + w", [](model::ModelSpec& s) { s.norm_weight_offset = 0.0; }},
      {"gemma2", "embeddings as they are", [](model::ModelSpec& s) { s.embedding_scale = 1.0; }},
      {"gemma2", "windows in the other layers", [](model::ModelSpec& s) { std::ranges::reverse(s.masks); }},
      {"gemma3_older", "one rope", [](model::ModelSpec& s) { s.local_rope.reset(); }},
      {"gemma3_newer", "one rope", [](model::ModelSpec& s) { s.local_rope.reset(); }},
      {"gemma3_newer", "no scaling", [](model::ModelSpec& s) { s.rope.kind = model::RopeKind::kDefault; }},
  };
  for (const Change& c : changes) {
    const std::string folder = kFolder + "/models/" + c.model;
    const SmallModelGolden golden = read_small_model(folder + "/logprobs.json");
    EXPECT_GT(largest_difference(load_reference(folder, {}, c.make).llama, golden.scored.back()), 100 * kFloat32Promise) << c.model << " with " << c.what;
  }
}

TEST_P(SmallModel, OnlyDynamicFollowsTheServedLength) {
  const std::string folder = kFolder + "/models/" + GetParam();
  const SmallModelGolden golden = read_small_model(folder + "/logprobs.json");
  const LoadedModel longer = load_reference(folder, {.max_model_len = 4 * golden.max_model_len});
  const double largest = largest_difference(longer.llama, golden.scored.back());
  if (longer.spec.rope.kind == model::RopeKind::kDynamic) {
    EXPECT_GT(largest, 100 * kFloat32Promise);
  } else {
    EXPECT_LE(largest, kFloat32Promise);
  }
}

std::vector<std::string> small_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/models")) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Golden, SmallModel, ::testing::ValuesIn(small_models()), [](const auto& test) { return test.param; });

TEST(SmallModels, AllAreThere) { EXPECT_EQ(small_models().size(), 13u); }

// With Hugging Face's float32 angles: exact ones alone move some log-probabilities at positions above 400 by 1.2e-4.
TEST(GsmTiny, Float32LogprobsEqualHuggingFaces) {
  const LoadedModel loaded = load_reference(kGsmTiny, {.angles = reference::AnglePrecision::kFloat32});
  const auto scored = read_scored(kGsmTinyGolden, "float32");
  EXPECT_EQ(scored.size(), 20u);
  Differences d;
  for (const ScoredPrompt& prompt : scored) compare_prompt(loaded.llama, prompt, d);
  RecordProperty("largest_difference", std::to_string(d.largest));
  EXPECT_LE(d.largest, kFloat32Promise);
}

// bfloat16 has no exact answer. What rounding each operation's result once does to the reference is one sample of the error that the
// format brings; Hugging Face, which rounds at about the same places, must lie as far from the exact numbers, within a factor of two.
TEST(GsmTiny, Bfloat16LogprobsAreAsFarFromExactAsRoundingMakesThem) {
  const LoadedModel exact = load_reference(kGsmTiny, {});
  const LoadedModel rounded = load_reference(kGsmTiny, {.activation_dtype = DType::kBF16, .kv_dtype = DType::kBF16});
  const auto scored = read_scored(kGsmTinyGolden, "bfloat16");
  Differences of_rounding, of_hugging_face;
  for (std::size_t i = 0; i < scored.size(); i += 5) {
    const auto e = logprobs_of(exact.llama, scored[i].ids), r = logprobs_of(rounded.llama, scored[i].ids);
    for_each_logprob(scored[i], [&](std::size_t p, TokenId token, double golden) {
      const auto t = static_cast<std::size_t>(token);
      of_rounding.add(r[p][t] - e[p][t]);
      of_hugging_face.add(golden - e[p][t]);
    });
  }
  RecordProperty("rms_of_rounding", std::to_string(of_rounding.rms()));
  RecordProperty("rms_of_hugging_face", std::to_string(of_hugging_face.rms()));
  EXPECT_LE(of_hugging_face.rms(), 2 * of_rounding.rms());
  EXPECT_GE(of_hugging_face.rms(), of_rounding.rms() / 2);
}

// Teacher-forced: after the golden's own tokens the reference's argmax is the golden's next one, unless two logits all but tie.
TEST(GsmTiny, Float32GreedyTokensEqualHuggingFaces) {
  const LoadedModel loaded = load_reference(kGsmTiny, {});
  const auto continuations = read_continuations(kGsmTinyGolden, "float32");
  EXPECT_EQ(continuations.size(), 200u);
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < continuations.size(); i += 16) {
    const Continuation& c = continuations[i];
    std::vector<TokenId> ids = c.prompt;
    ids.insert(ids.end(), c.tokens.begin(), c.tokens.end());
    const reference::Matrix logits = loaded.llama.logits(ids);
    for (std::size_t step = 0; step < c.tokens.size(); ++step) {
      if (c.gaps[step] < 2 * kFloat32Promise) continue;
      const auto row = logits.row(static_cast<std::int64_t>(c.prompt.size() + step) - 1);
      EXPECT_EQ(std::ranges::max_element(row) - row.begin(), c.tokens[step]) << "prompt " << i << ", step " << step;
      ++compared;
    }
  }
  EXPECT_GT(compared, 13 * 60);
}

}  // namespace
}  // namespace quire::golden
