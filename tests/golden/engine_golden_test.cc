// The engine (scheduler, runner, CPU kernels, paged cache) against Hugging Face transformers: log-probabilities and greedy answers of the shipped
// model, and of small models with every rope scaling, biases and head counts. The goldens come from tools/make_hf_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden/golden_files.h"
#include "kit/model_bench.h"

namespace quire::golden {
namespace {

const std::string kFolder = QUIRE_SOURCE_DIR "/tests/golden";
const std::string kGsmTiny = QUIRE_SOURCE_DIR "/models/gsm-tiny", kGsmTinyGolden = kFolder + "/gsm_tiny.json";
// What rounding each operation once to bfloat16 does to the float64 reference on these prompts: 0.028 root mean square
// (reference_golden_test.cc measures and bounds it within a factor of two). Numbers as far from exact as that, on one side or both, differ by
// at most twice it. A single log-probability of an unlikely token moves more: the bound on the largest is twenty times the mean.
constexpr double kBFloat16Rms = 2 * 0.028, kBFloat16Largest = 20 * 0.028;
// Hugging Face's bfloat16 logits between 16 and 32 are multiples of this: closer ones are equal there, and the lower id wins.
constexpr double kBFloat16LogitUnit = 0.125;

struct Engine {
  Engine(const std::string& model_dir, DType dtype, std::int32_t max_model_len)
      : options{.model_dir = model_dir, .dtype = dtype, .num_threads = 2, .scheduler = {.max_num_batched_tokens = 512, .max_num_seqs = 64, .max_model_len = max_model_len, .num_blocks = 4096}},
        bench(options) {}
  std::vector<test::FinishedSequence> run(const std::vector<std::vector<TokenId>>& prompts, const SamplingParams& sampling) {
    Scheduler scheduler(options.scheduler);
    std::vector<SequenceSpec> specs;
    for (const auto& p : prompts) specs.push_back({.id = RequestId{specs.size()}, .prompt = p, .sampling = std::make_shared<SamplingParams>(sampling)});
    return test::run_all(*bench.runner, scheduler, specs, 1).sequences;
  }
  test::ModelBenchOptions options;
  test::ModelBench bench;
};

SamplingParams scoring() {
  SamplingParams p;
  p.temperature = 0;
  p.max_tokens = 1;
  p.ignore_eos = true;
  p.prompt_logprobs = 20;
  return p;
}

Differences scored_differences(Engine& engine, const std::vector<ScoredPrompt>& golden) {
  std::vector<std::vector<TokenId>> prompts;
  // A prompt of the whole context leaves no room for an output: its last token is left out, and with it one log-probability.
  const auto longest = static_cast<std::size_t>(engine.options.scheduler.max_model_len - 1);
  for (const auto& g : golden) prompts.emplace_back(g.ids.begin(), g.ids.begin() + static_cast<std::ptrdiff_t>(std::min(g.ids.size(), longest)));
  const auto got = engine.run(prompts, scoring());
  Differences d;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(got[i].error, "");
    EXPECT_EQ(got[i].prompt_logprobs.size(), prompts[i].size() - 1);
    for (std::size_t p = 0; p < got[i].prompt_logprobs.size(); ++p) d.add(static_cast<double>(got[i].prompt_logprobs[p].logprob) - golden[i].next[p]);
    for (const auto& [position, scores] : golden[i].top) {
      if (static_cast<std::size_t>(position) >= got[i].prompt_logprobs.size()) continue;  // predicts past the prompt
      const auto& top = got[i].prompt_logprobs[static_cast<std::size_t>(position)].top;
      for (std::size_t k = 0; k < std::min(top.size(), scores.size()); ++k) d.add(static_cast<double>(top[k].second) - scores[k].logprob);
    }
  }
  return d;
}

TEST(EngineGolden, Float32LogProbabilities) {
  Engine engine(kGsmTiny, DType::kF32, 1024);
  const Differences d = scored_differences(engine, read_scored(kGsmTinyGolden, "float32"));
  std::printf("float32 against Hugging Face: largest %.3g, root mean square %.3g over %lld numbers\n", d.largest, d.rms(), static_cast<long long>(d.count));
  EXPECT_GT(d.count, 3000);
  EXPECT_LE(d.largest, kFloat32Promise);
}

// Hugging Face rounds every operation's result to bfloat16; we keep activations in float32 and round weights and cache alone. The bound is
// what those roundings do: docs/NUMERICS.md, "16-bit types".
TEST(EngineGolden, BFloat16LogProbabilities) {
  Engine engine(kGsmTiny, DType::kBF16, 1024);
  const Differences d = scored_differences(engine, read_scored(kGsmTinyGolden, "bfloat16"));
  std::printf("bfloat16 against Hugging Face: largest %.3g, root mean square %.3g over %lld numbers\n", d.largest, d.rms(), static_cast<long long>(d.count));
  EXPECT_LE(d.rms(), kBFloat16Rms);
  EXPECT_LE(d.largest, kBFloat16Largest);
}

struct GreedyCase {
  DType dtype;
  double tie;  // a step whose two best logits are closer than this may rightly go either way
};

class Greedy : public ::testing::TestWithParam<GreedyCase> {};

TEST_P(Greedy, TwoHundredAnswers) {
  const auto [dtype, tie] = GetParam();
  Engine engine(kGsmTiny, dtype, 1024);
  const auto golden = read_continuations(kGsmTinyGolden, dtype_name(dtype));
  ASSERT_EQ(golden.size(), 200u);
  SamplingParams p;
  p.temperature = 0;
  p.max_tokens = 64;
  p.ignore_eos = true;
  std::vector<std::vector<TokenId>> prompts;
  for (const auto& g : golden) prompts.push_back(g.prompt);
  const auto got = engine.run(prompts, p);
  int whole = 0;
  double widest = 0;  // gap of a step that went the other way
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const auto& want = golden[i].tokens;
    ASSERT_LE(want.size(), got[i].tokens.size());
    const auto first = static_cast<std::size_t>(std::mismatch(want.begin(), want.end(), got[i].tokens.begin()).first - want.begin());
    if (first == want.size()) {
      ++whole;
    } else {
      EXPECT_LT(golden[i].gaps[first], tie) << "prompt " << i << " differs at output " << first;
      widest = std::max(widest, golden[i].gaps[first]);
    }
  }
  std::printf("%s: %d of 200 greedy answers equal in all 64 tokens; the others part at a tie, the widest of %.3g\n", dtype_name(dtype), whole, widest);
  if (dtype == DType::kF32) {
    EXPECT_EQ(whole, 200);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Greedy, ::testing::Values(GreedyCase{DType::kF32, 2 * kFloat32Promise}, GreedyCase{DType::kBF16, kBFloat16LogitUnit}),
                         [](const auto& p) { return std::string(dtype_name(p.param.dtype)); });

class SmallModels : public ::testing::TestWithParam<std::string> {};

TEST_P(SmallModels, LogProbabilities) {
  const std::string folder = kFolder + "/models/" + GetParam();
  const SmallModelGolden golden = read_small_model(folder + "/logprobs.json");
  Engine engine(folder, DType::kF32, static_cast<std::int32_t>(golden.max_model_len));
  const Differences d = scored_differences(engine, golden.scored);
  std::printf("%s: largest %.3g over %lld numbers\n", GetParam().c_str(), d.largest, static_cast<long long>(d.count));
  EXPECT_GT(d.count, 50);
  EXPECT_LE(d.largest, kFloat32Promise) << d.rms();
}

INSTANTIATE_TEST_SUITE_P(Variants, SmallModels, ::testing::Values("gemma2", "gemma3_newer", "gemma3_older", "mistral", "one_kv_head", "qwen2", "qwen3", "rope_dynamic", "rope_linear", "rope_llama3", "rope_yarn", "rope_yarn_mscale", "untied_bias"), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace quire::golden
