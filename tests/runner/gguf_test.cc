// GGUF files through the runner: the same bits as a folder of the same numbers, and quantised ones against the float64 reference over
// their dequantised weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>

#include "base/files.h"
#include "kit/gguf_encode.h"
#include "kit/gguf_model.h"
#include "kit/model_bench.h"
#include "kit/temp_dir.h"
#include "model/kept_blocks.h"
#include "reference/gguf_blocks.h"
#include "reference/llama.h"
#include "reference/logprobs.h"

namespace quire {
namespace {

const std::string kFolder = QUIRE_SOURCE_DIR "/models/gsm-tiny";

struct How {
  model::GgufWeights weights = model::GgufWeights::kDequantised;
  int threads = 2;
  std::int32_t budget = 96;
  std::string backend = "CPU_UNIFIED";
};

test::RunResult run_model(const std::string& model, DType dtype, const std::vector<SequenceSpec>& specs, const How& how = {}) {
  test::ModelBenchOptions o{.model_dir = model, .dtype = dtype, .gguf = how.weights, .backend = how.backend, .num_threads = how.threads};
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = how.budget, .max_num_seqs = std::min(8, how.budget), .max_model_len = 256, .num_blocks = 128};
  test::ModelBench bench(o);
  Scheduler scheduler(o.scheduler);
  return test::run_all(*bench.runner, scheduler, specs, 1);
}

struct Plain {
  const char* type;
  DType dtype;
};
class SameNumbers : public ::testing::TestWithParam<Plain> {};

TEST_P(SameNumbers, GiveTheBitsOfTheFolder) {
  const auto [type, dtype] = GetParam();
  test::TempDir dir;
  const std::string file = dir.write("m.gguf", test::gguf_file_of(test::gguf_model(kFolder, type)));
  const auto specs = test::scored_sequences(576, {2, 17, 130});
  const auto folder = run_model(kFolder, dtype, specs), gguf = run_model(file, dtype, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(gguf.sequences[i].error, "");
    EXPECT_EQ(gguf.sequences[i].tokens, folder.sequences[i].tokens);
    EXPECT_EQ(gguf.sequences[i].logprobs, folder.sequences[i].logprobs);
    ASSERT_EQ(gguf.sequences[i].prompt_logprobs.size(), specs[i].prompt.size() - 1);
    for (std::size_t p = 0; p + 1 < specs[i].prompt.size(); ++p) EXPECT_EQ(gguf.sequences[i].prompt_logprobs[p].logprob, folder.sequences[i].prompt_logprobs[p].logprob) << i << " at " << p;
  }
}

// The folder holds bfloat16, which float32 holds too; float16 rounds the same numbers on both ways.
INSTANTIATE_TEST_SUITE_P(Types, SameNumbers, ::testing::Values(Plain{"F32", DType::kF32}, Plain{"F32", DType::kBF16}, Plain{"BF16", DType::kBF16}, Plain{"BF16", DType::kF32}, Plain{"F16", DType::kF16}),
                         [](const auto& p) { return std::string(p.param.type) + "_" + dtype_name(p.param.dtype); });

// A golden model's folder, with what such files cannot say as they mean it: query_pre_attn_scalar is the head's size, and Qwen2 has no windows.
std::string family_folder(const test::TempDir& dir, const std::string& name) {
  const std::string from = QUIRE_SOURCE_DIR "/tests/golden/models/" + name, to = dir.path() + "/" + name;
  std::filesystem::copy(from, to);
  std::string config = read_file(from + "/config.json", 1 << 20).value();
  const std::string head_dim = std::to_string(model::read_model_spec(from).value().head_dim);
  if (config.find("query_pre_attn_scalar") != std::string::npos) config = std::regex_replace(config, std::regex(R"("query_pre_attn_scalar": *\d+)"), "\"query_pre_attn_scalar\": " + head_dim);
  config = std::regex_replace(config, std::regex(R"("use_sliding_window": *true)"), "\"use_sliding_window\": false");
  (void)dir.write(name + "/config.json", config);
  return to;
}

class Families : public ::testing::TestWithParam<const char*> {};

TEST_P(Families, GiveTheBitsOfTheFolder) {
  test::TempDir dir;
  const std::string folder = family_folder(dir, GetParam()), file = dir.write("m.gguf", test::gguf_file_of(test::gguf_model(folder, "F32")));
  const model::ModelSpec a = model::read_model_spec(folder).value(), b = model::read_model_spec(file).value();
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.masks, b.masks);
  EXPECT_EQ(a.local_rope.has_value(), b.local_rope.has_value());
  EXPECT_EQ(a.attention_scale(), b.attention_scale());
  const auto specs = test::scored_sequences(a.vocab_size, {2, 17, 130});
  const auto want = run_model(folder, DType::kF32, specs), got = run_model(file, DType::kF32, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(got.sequences[i].tokens, want.sequences[i].tokens);
    EXPECT_EQ(got.sequences[i].logprobs, want.sequences[i].logprobs);
    for (std::size_t p = 0; p + 1 < specs[i].prompt.size(); ++p) ASSERT_EQ(got.sequences[i].prompt_logprobs[p].logprob, want.sequences[i].prompt_logprobs[p].logprob) << i << " at " << p;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Families, ::testing::Values("mistral", "qwen2", "qwen3", "gemma2", "gemma3_older"), [](const auto& p) { return std::string(p.param); });

// The twin's numbers of what the file holds, rounded to float32 and to the served type as the documents say.
reference::LlamaReference reference_of(const std::string& type, DType dtype, std::int64_t int8_group = 0) {
  const model::ModelSpec spec = model::read_model_spec(kFolder).value();
  const model::Checkpoint folder = model::Checkpoint::open(kFolder).value();
  const auto parameters = model::parameters_of(spec);
  const auto load = [&](const std::string& name) {
    const auto p = std::ranges::find(parameters, name, &model::ParameterSpec::name);
    const std::vector<float> values = test::folder_values(folder, name);
    const std::int64_t columns = p->shape.back(), rows = p->shape.size() == 2 ? p->shape[0] : 1;
    std::vector<double> held(values.begin(), values.end());
    if (p->shape.size() == 2) {
      const std::string bytes = test::gguf_encode(type, values);
      held = reference::gguf_dequantise(type, std::as_bytes(std::span(bytes)));
      for (double& v : held) v = dtype == DType::kF16 ? to_float(to_float16(static_cast<float>(v))) : static_cast<float>(v);
    }
    return reference::Matrix(rows, columns, std::move(held));
  };
  return reference::LlamaReference(spec, load, {.max_model_len = 256, .angles = reference::AnglePrecision::kFloat32, .kv_dtype = dtype == DType::kF32 ? std::nullopt : std::optional(dtype), .int8_group = int8_group});
}

class Quantised : public ::testing::TestWithParam<const char*> {};

// Bounds as in reference_test.cc: of arithmetic in float32, and of single roundings of a float16 cache.
TEST_P(Quantised, LogProbabilitiesAreTheReferences) {
  const std::string type = GetParam();
  test::TempDir dir;
  const std::string file = dir.write("m.gguf", test::gguf_file_of(test::gguf_model(kFolder, type)));
  const auto specs = test::scored_sequences(576, {2, 17, 65});
  for (const auto& [dtype, bound] : {std::pair(DType::kF32, 1e-4), {DType::kF16, 2e-3}}) {
    const auto reference = reference_of(type, dtype);
    const auto run = run_model(file, dtype, specs);
    double worst = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      ASSERT_EQ(run.sequences[i].error, "");
      const auto logits = reference.logits(specs[i].prompt);
      ASSERT_EQ(run.sequences[i].prompt_logprobs.size(), specs[i].prompt.size() - 1);
      for (std::size_t p = 1; p < specs[i].prompt.size(); ++p) {
        const auto want = reference::log_softmax(logits.row(static_cast<std::int64_t>(p) - 1));
        const double error = std::abs(static_cast<double>(run.sequences[i].prompt_logprobs[p - 1].logprob) - want[static_cast<std::size_t>(specs[i].prompt[p])]);
        worst = std::max(worst, error);
        ASSERT_LE(error, bound) << type << " in " << dtype_name(dtype) << ", sequence of " << specs[i].prompt.size() << ", position " << p;
      }
    }
    std::printf("worst log-probability error of %s in %s: %.3g (bound %.3g)\n", type.c_str(), dtype_name(dtype), worst, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Quantised, ::testing::Values("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"), [](const auto& p) { return std::string(p.param); });

// Matrices that stay in their blocks, whose inputs are int8.
class Blocks : public ::testing::TestWithParam<const char*> {};

// What float32 rounds otherwise than the reference moves a stored input to the next whole number now and then, which moves what follows. Both
// results are then the one without int8 and a noise of int8 inputs, of one size n (root mean square). Sharing nothing, two such results differ by
// sqrt(2) n; whatever they share, by no more than n + n (the triangle inequality), and that is the bound. (tests/ops holds each product to its bits.)
TEST_P(Blocks, LogProbabilitiesAreTheReferences) {
  const std::string type = GetParam();
  test::TempDir dir;
  const std::string file = dir.write("m.gguf", test::gguf_file_of(test::gguf_model(kFolder, type)));
  const auto specs = test::scored_sequences(576, {2, 17, 65});
  const auto int8 = reference_of(type, DType::kF32, ops::kInt8Group), plain = reference_of(type, DType::kF32);
  const auto run = run_model(file, DType::kF32, specs, {.weights = model::GgufWeights::kBlocks});
  double error = 0, noise = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ASSERT_EQ(run.sequences[i].error, "");
    const auto with = int8.logits(specs[i].prompt), without = plain.logits(specs[i].prompt);
    for (std::size_t p = 1; p < specs[i].prompt.size(); ++p) {
      const auto row = static_cast<std::int64_t>(p) - 1;
      const auto token = static_cast<std::size_t>(specs[i].prompt[p]);
      const double want = reference::log_softmax(with.row(row))[token], exact = reference::log_softmax(without.row(row))[token];
      const double got = run.sequences[i].prompt_logprobs[p - 1].logprob;
      error += (got - want) * (got - want);
      noise += (want - exact) * (want - exact);
    }
  }
  std::printf("log-probabilities of %s in blocks: %.3g from the reference with int8 inputs, which is %.3g from the one without (root mean squares x root of the count)\n", type.c_str(), std::sqrt(error), std::sqrt(noise));
  EXPECT_LE(std::sqrt(error), std::sqrt(noise) + std::sqrt(noise));
}

TEST_P(Blocks, SameBitsHoweverComputed) {
  test::TempDir dir;
  const std::string file = dir.write("m.gguf", test::gguf_file_of(test::gguf_model(kFolder, GetParam())));
  const auto specs = test::scored_sequences(576, {2, 17, 130});
  const auto want = run_model(file, DType::kF16, specs, {.weights = model::GgufWeights::kBlocks, .threads = 1, .budget = 512});
  for (const How& how : {How{.weights = model::GgufWeights::kBlocks, .threads = 2, .budget = 7}, How{.weights = model::GgufWeights::kBlocks, .threads = 2, .budget = 64, .backend = "CPU_SPLIT"}}) {
    const auto got = run_model(file, DType::kF16, specs, how);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(got.sequences[i].tokens, want.sequences[i].tokens);
      EXPECT_EQ(got.sequences[i].logprobs, want.sequences[i].logprobs);
      for (std::size_t p = 0; p + 1 < specs[i].prompt.size(); ++p) ASSERT_EQ(got.sequences[i].prompt_logprobs[p].logprob, want.sequences[i].prompt_logprobs[p].logprob) << i << " at " << p;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Blocks, ::testing::Values("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"), [](const auto& p) { return std::string(p.param); });

// Types that differ from matrix to matrix, as files of the kind Q4_K_M have them, and a projection that cannot stay.
TEST(MixedBlocks, RunSideBySide) {
  test::GgufModel mixed = test::gguf_model(kFolder, "");
  mixed.type_of = [](const std::string& name) {
    return name.find("attn_v") != std::string::npos ? "Q6_K" : name.find("ffn_down") != std::string::npos ? "Q8_0" : name.find("blk.2.ffn_up") != std::string::npos ? "F16" : name.starts_with("token_embd") ? "Q6_K" : "Q4_K";
  };
  test::TempDir dir;
  const std::string file = dir.write("m.gguf", test::gguf_file_of(mixed));
  const model::KeptBlocks kept = model::kept_blocks(model::read_model_spec(file).value(), model::GgufWeights::kBlocks);
  EXPECT_EQ(kept.kept, "28 Q4_K, 7 Q6_K, 6 Q8_0");
  EXPECT_EQ(kept.dequantised, std::vector<std::string>{"model.layers.2.mlp.gate_proj: multiplied together with model.layers.2.mlp.up_proj, which is not in blocks"});
  const auto specs = test::scored_sequences(576, {17, 65});
  const auto plain = run_model(file, DType::kF16, specs), blocks = run_model(file, DType::kF16, specs, {.weights = model::GgufWeights::kBlocks});
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (std::size_t p = 0; p + 1 < specs[i].prompt.size(); ++p)
      EXPECT_NEAR(blocks.sequences[i].prompt_logprobs[p].logprob, plain.sequences[i].prompt_logprobs[p].logprob, 0.5) << "int8 inputs alone part the two";
}

}  // namespace
}  // namespace quire
