// quire explain: both threads' command lines on six devices, every refusal it can tell, JSON, and reading checkpoints that serve refuses.
#include "commands/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "explain_cases.h"
#include "kit/temp_dir.h"

namespace quire::commands {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using test::explained;

const ModelFacts kFacts = test::thread_lines()[1].facts;

Explanation answer(const std::string& line, const config::EnvVariables& variables = {}, const ModelFacts& facts = kFacts) {
  std::vector<std::string> arguments{"MODEL"};
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    arguments.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  auto e = explained(arguments, facts, variables);
  EXPECT_TRUE(e.ok()) << line << ": " << (e.ok() ? "" : e.error().message);
  return e.ok() ? std::move(e).value() : Explanation{.model = "?", .device = attention::find_device_family("cpu")};
}
std::string error_of(std::vector<std::string> arguments) {
  const auto e = explained(std::move(arguments), kFacts);
  return e.ok() ? "" : e.error().message;
}
std::string decode(const Explanation& e) { return e.selection.set.empty() ? "" : std::string(e.selection.set.decode->name); }

TEST(Explain, BothThreadsOnSixDevicesAreGolden) {
  for (const std::string_view device : test::kGoldenDevices) {
    const std::string path = QUIRE_SOURCE_DIR "/tests/commands/goldens/explain_" + std::string(device) + ".txt";
    const auto golden = read_file(path, 1 << 20);
    ASSERT_TRUE(golden.ok()) << path;
    EXPECT_EQ(test::golden_text(device), golden.value()) << "refresh with: ninja refresh_explain && bin/refresh_explain tests/commands/goldens";
  }
}

TEST(Explain, ScalesAreGolden) {
  const auto golden = read_file(std::string(QUIRE_SOURCE_DIR "/tests/commands/goldens/") + std::string(test::kScalesGolden), 1 << 20);
  ASSERT_TRUE(golden.ok());
  EXPECT_EQ(test::scales_golden_text(), golden.value()) << "refresh with: ninja refresh_explain && bin/refresh_explain tests/commands/goldens";
}

TEST(Explain, TheThreadsReviewsHold) {
  for (const test::ThreadLine& line : test::thread_lines()) {
    for (const auto& [device, row] : std::vector<std::pair<const char*, const char*>>{
             {"gfx90a", "ROCM_FAST"}, {"gfx942", "ROCM_FAST"}, {"gfx950", "ROCM_FAST"}, {"gfx1100", "ROCM_GENERIC"}, {"gfx1201", "ROCM_GENERIC"}, {"sm90", "CUDA_SM90"}, {"sm80", "CUDA_GENERIC"}}) {
      auto arguments = line.arguments;
      arguments.insert(arguments.end(), {"--device", device});
      const auto e = explained(arguments, line.facts, line.variables);
      ASSERT_TRUE(e.ok()) << e.error().message;
      EXPECT_EQ(decode(e.value()), row) << line.title << " on " << device;
      EXPECT_FALSE(e->runnable()) << "no GPU row is built";
      EXPECT_EQ(decode(explained(arguments, line.facts).value()) == "ROCM_FAST", false) << "opt-in: without the variable never";
    }
  }
}

TEST(Explain, NothingServesIsAnAnswer) {
  const auto e = answer("--device gfx942 --attention-backend ROCM_FAST --head-size 96 --block-size 48");
  EXPECT_TRUE(e.selection.set.empty());
  const std::string text = explanation_text(e);
  EXPECT_THAT(text, HasSubstr("nothing serves: --attention-backend names ROCM_FAST"));
  EXPECT_THAT(text, HasSubstr("head size 96 is not among 64, 128, 256"));
  EXPECT_THAT(text, HasSubstr("block size 48 is not among 16, 32"));
  EXPECT_THAT(text, HasSubstr("nearest   ROCM_FAST (not built) with head size 64 instead of 96, block size 32 instead of 48"));
  const auto json = explanation_json(e);
  EXPECT_TRUE(json.at("selected").is_null());
  EXPECT_EQ(json.at("nearest").at("changes").as_array().size(), 2u);
  EXPECT_EQ(json.at("device").as_string(), "gfx942");
}

TEST(Explain, EveryQuestionFlagChangesTheAnswer) {
  EXPECT_EQ(decode(answer("")), "CPU_UNIFIED");
  EXPECT_EQ(decode(answer("--attention-backend cpu_split")), "CPU_SPLIT");
  EXPECT_EQ(decode(answer("--attention-config.backend CPU_SPLIT")), "CPU_SPLIT");
  EXPECT_EQ(decode(answer("", {{"VLLM_ATTENTION_BACKEND", "CPU_SPLIT"}})), "CPU_SPLIT");
  EXPECT_EQ(decode(answer("--attention-backend CPU_UNIFIED", {{"VLLM_ATTENTION_BACKEND", "CPU_SPLIT"}})), "CPU_UNIFIED") << "the flag wins";
  EXPECT_EQ(decode(answer("--device cpu --head-size 300")), "");
  EXPECT_EQ(decode(answer("--num-heads 66 --num-kv-heads 2")), "");
  EXPECT_EQ(decode(answer("--block-size 24")), "");
  EXPECT_EQ(decode(answer("-tp 3")), "");
  EXPECT_EQ(decode(answer("--kv-cache-dtype nvfp4 --device gfx950")), "");
  EXPECT_EQ(decode(answer("--kv-cache-dtype fp8_e5m2 --device gfx950")), "ROCM_GENERIC");
  EXPECT_EQ(decode(answer("--kv-cache-dtype fp8_e5m2 --device gfx950", {{"VLLM_ROCM_USE_AITER", "1"}})), "");
  EXPECT_EQ(decode(answer("--masks sinks --device gfx950 --attention-backend rocm_aiter_fa")), "");
  EXPECT_EQ(decode(answer("--masks sliding-window alibi --device gfx950 --attention-backend rocm_aiter_fa")), "ROCM_FAST");
  EXPECT_EQ(decode(answer("--device gfx942", {{"VLLM_ROCM_USE_AITER", "1"}, {"VLLM_ROCM_USE_AITER_MHA", "0"}})), "ROCM_GENERIC");
  EXPECT_EQ(decode(answer("--device gfx942", {{"VLLM_ROCM_USE_AITER", "0"}, {"VLLM_ROCM_USE_AITER_MHA", "1"}})), "ROCM_GENERIC");
  EXPECT_EQ(answer("--device gfx942 --kv-cache-dtype fp8").problem.kv_format, kv::KvFormat::kFp8E4m3Fnuz);
  EXPECT_EQ(answer("--device gfx950 --kv-cache-dtype fp8").problem.kv_format, kv::KvFormat::kFp8E4m3);
  EXPECT_EQ(answer("--kv-cache-dtype float16").problem.kv_format, kv::KvFormat::kF16);
  EXPECT_EQ(answer("--dtype half").problem.kv_format, kv::KvFormat::kF16) << "auto follows the model's type";
  EXPECT_EQ(answer("--device sm90", {}, test::thread_lines()[0].facts).problem.kv_format, kv::KvFormat::kFp8E4m3) << "auto follows the checkpoint's scheme";
}

TEST(Explain, WhatIsNotBuiltIsMarkedAndNothingElse) {
  EXPECT_TRUE(answer("").runnable());
  EXPECT_TRUE(answer("").not_built.empty());
  const auto e = answer("-tp 2 --quantization awq --speculative-config.model X --enable-lora");
  EXPECT_FALSE(e.runnable());
  for (const char* flag : {"-tp '2'", "--quantization 'awq'", "--speculative-config", "--enable-lora"}) EXPECT_THAT(e.not_built, Contains(HasSubstr(flag)));
  EXPECT_EQ(e.not_built.size(), 4u);
  ModelFacts refused = kFacts;
  refused.serve_refusal = "config.json: something";
  EXPECT_THAT(answer("", {}, refused).not_built, Contains(HasSubstr("something")));
}

TEST(Explain, ALengthThatServeRefusesIsNotServed) {
  ModelFacts facts = kFacts;
  facts.limit = {.tokens = 512, .source = "tokenizer_config.json's model_max_length 512"};
  EXPECT_TRUE(answer("--max-model-len 512", {}, facts).runnable());
  EXPECT_EQ(answer("", {}, facts).problem.max_context, 512);
  const auto refused = answer("--max-model-len 513", {}, facts);
  EXPECT_FALSE(refused.runnable());
  EXPECT_THAT(refused.not_built, Contains(HasSubstr("--max-model-len 513: tokenizer_config.json's model_max_length 512 allows at most 512 tokens")));
  const auto allowed = answer("--max-model-len 513", {{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"}}, facts);
  EXPECT_TRUE(allowed.runnable());
  EXPECT_THAT(explanation_text(allowed), HasSubstr("warning --max-model-len 513: tokenizer_config.json's model_max_length 512 allows at most 512 tokens; VLLM_ALLOW_LONG"));
}

TEST(Explain, AFormatOfNoRowHasTheNameThatWasAskedFor) {
  const auto e = answer("--kv-cache-dtype nvfp4");
  const std::string text = explanation_text(e);
  EXPECT_THAT(text, HasSubstr("KV nvfp4 is not supported"));
  EXPECT_THAT(text, HasSubstr("KV bfloat16 instead of nvfp4"));
  EXPECT_THAT(text, Not(HasSubstr("of no row")));
  EXPECT_EQ(explanation_json(e).at("question").at("kv_format").as_string(), "nvfp4");
}

TEST(Explain, TheWeightsAreThoseThatServeWouldHave) {
  EXPECT_EQ(answer("").quantization, "none");
  const auto loaded = answer("--quantization fp8");
  EXPECT_TRUE(loaded.runnable());
  EXPECT_EQ(loaded.quantization, "fp8, made while loading: 224 of 224 linear layers: tensor weights, inputs per token");
  EXPECT_THAT(explanation_text(loaded), HasSubstr("weights   quantised by fp8, made while loading"));
  const ModelFacts fp8 = test::thread_lines()[0].facts;
  EXPECT_EQ(answer("", {}, fp8).quantization, "fp8: 560 of 560 linear layers: tensor weights, static inputs");
  const auto other = answer("--quantization quark", {}, fp8);
  EXPECT_FALSE(other.runnable());
  EXPECT_THAT(other.not_built, Contains(HasSubstr("--quantization 'quark': the checkpoint is quantised by 'fp8'")));
}

TEST(Explain, GraphModesFollowTheSelectedRows) {
  const auto full = answer("--attention-backend CPU_SPLIT -cc.cudagraph_mode FULL");
  EXPECT_EQ(full.graph_mode, "FULL");
  EXPECT_EQ(full.graph_runs, "FULL_AND_PIECEWISE");
  EXPECT_EQ(full.graph_changes.size(), 1u);
  EXPECT_EQ(answer("-cc.cudagraph_mode FULL").graph_runs, "FULL");
  EXPECT_EQ(answer("").graph_runs, "FULL_AND_PIECEWISE");
  EXPECT_EQ(answer("--enforce-eager").graph_runs, "NONE");
  EXPECT_EQ(answer("--device gfx942 --head-size 7").graph_runs, "") << "nothing serves";
}

TEST(Explain, MistakesAreErrorsThatNameTheNearest) {
  EXPECT_THAT(error_of({"MODEL", "--device", "gfx9420"}), HasSubstr("did you mean 'gfx942'"));
  EXPECT_THAT(error_of({"MODEL", "--device", "rocm"}), HasSubstr("gfx90a, gfx942"));
  EXPECT_THAT(error_of({"MODEL", "--attention-backend", "ROCM_FASTT"}), HasSubstr("did you mean 'ROCM_FAST'"));
  EXPECT_THAT(error_of({"MODEL", "--attention-backend", "NOPE"}), HasSubstr("--attention-backend 'NOPE': unknown attention backend; must be one of CPU_UNIFIED, CPU_SPLIT, CUDA_SM90, CUDA_GENERIC, ROCM_FAST, ROCM_GENERIC, or AUTO"));
  EXPECT_THAT(error_of({"MODEL", "--hed-size", "64"}), HasSubstr("did you mean '--head-size'"));
  EXPECT_THAT(error_of({"MODEL", "--head-size", "0"}), HasSubstr("--head-size"));
  EXPECT_THAT(error_of({"MODEL", "--masks", "sink"}), HasSubstr("did you mean 'sinks'"));
  EXPECT_THAT(error_of({"MODEL", "-cc.nope", "1"}), HasSubstr("nope"));
  EXPECT_THAT(error_of({"MODEL", "--prompt", "x"}), HasSubstr("belongs to `quire run`"));
  EXPECT_THAT(error_of({}), HasSubstr("MODEL is missing: quire explain MODEL"));
  const auto serve = config::parse_command_line(std::vector<std::string>{"serve", "M", "--head-size", "64"});
  ASSERT_FALSE(serve.ok());
  EXPECT_THAT(serve.error().message, HasSubstr("belongs to `quire explain`"));
}

TEST(Explain, WhatIsNotReadIsSaid) {
  const auto text = explanation_text(answer("--device gfx942 --attention-backend ROCM_GENERIC", {{"VLLM_ATTENTION_BACKEND", "ROCM_FAST"}, {"VLLM_ROCM_USE_AITER", "1"}}));
  EXPECT_THAT(text, HasSubstr("info VLLM_ATTENTION_BACKEND is not read: --attention-backend wins"));
  EXPECT_THAT(text, HasSubstr("info VLLM_ROCM_USE_AITER is not read: --attention-backend wins"));
  EXPECT_THAT(explanation_text(answer("--device gfx942", {{"VLLM_ROCM_USE_AITER", "0"}})), HasSubstr("VLLM_ROCM_USE_AITER switches the opt-in path off"));
  EXPECT_THAT(explanation_text(answer("--device sm90", {{"VLLM_ROCM_USE_AITER", "1"}})), HasSubstr("warning VLLM_ROCM_USE_AITER has no effect"));
}

// The subcommand itself: exit status and one JSON document.
int exit_status(std::vector<std::string> arguments, std::string& out) {
  arguments.insert(arguments.begin(), "explain");
  const auto command = config::parse_command_line(arguments);
  EXPECT_TRUE(command.ok());
  if (!command.ok()) return -1;
  ::testing::internal::CaptureStdout();
  const int status = explain(std::get<config::ExplainCommand>(command.value()));
  out = ::testing::internal::GetCapturedStdout();
  return status;
}

TEST(Explain, ExitStatusIsZeroWheneverThereIsAnAnswer) {
  const std::string tiny = QUIRE_SOURCE_DIR "/models/gsm-tiny";
  std::string out;
  EXPECT_EQ(exit_status({tiny, "--json"}, out), 0);
  EXPECT_EQ(parse_json(out).value().at("selected").at("decode").as_string(), "CPU_UNIFIED");
  EXPECT_EQ(exit_status({tiny, "--json", "--device", "gfx942", "--attention-backend", "CPU_SPLIT"}, out), 0) << "nothing is selected";
  EXPECT_TRUE(parse_json(out).value().at("selected").is_null());
  EXPECT_EQ(parse_json(out).value().at("device").as_string(), "gfx942");
  EXPECT_EQ(exit_status({tiny, "--scales", "--kv-cache-dtype", "fp8", "--device", "gfx942"}, out), 0);
  EXPECT_EQ(out, "model      " + tiny + "\ndevice     gfx942\nKV scales  fp8_e4m3 (FNUZ): scales of 1: the checkpoint has none\n" + out.substr(out.find("warning")));
  EXPECT_THAT(out, HasSubstr("\nwarning    FP8 KV cache (fp8_e4m3 (FNUZ)) without scales"));
  EXPECT_EQ(exit_status({tiny, "--scales", "--json"}, out), 0);
  EXPECT_EQ(parse_json(out).value().at("source").as_string(), "none");
  EXPECT_EQ(parse_json(out).value().at("scales").as_array().size(), 24u);
  EXPECT_EQ(exit_status({tiny, "--scales", "--device", "gfx950", "--kv-cache-dtype", "nvfp4"}, out), 1) << "a format without a ledger";
  EXPECT_EQ(exit_status({tiny, "--device", "gfx9"}, out), config::kUsageExitCode);
  EXPECT_EQ(out, "");
  EXPECT_NE(exit_status({tiny + "/none"}, out), 0);
}

TEST(Explain, JsonSaysWhatTheTextSays) {
  const auto json = explanation_json(answer("--device gfx1100", {{"VLLM_ROCM_USE_AITER", "1"}}));
  EXPECT_EQ(json.at("selected").at("decode").as_string(), "ROCM_GENERIC");
  EXPECT_EQ(json.at("selected").at("built").as_bool(), false);
  EXPECT_EQ(json.at("selected").at("graph_support").as_string(), "ALWAYS");
  EXPECT_EQ(json.at("fallbacks").as_array().size(), 1u);
  EXPECT_EQ(json.at("fallbacks").at(0).at("from").as_string(), "ROCM_FAST");
  EXPECT_EQ(json.at("candidates").as_array().size(), attention::backend_table().size());
  EXPECT_EQ(json.at("wave_width").as_int64(), 32);
  for (const auto& c : json.at("candidates").as_array()) EXPECT_EQ(c.at("verdict") == "refused", !c.at("reasons").as_array().empty());
}

TEST(ModelFactsFile, GsmTinyAndACheckpointThatServeRefuses) {
  const auto tiny = read_model_facts(QUIRE_SOURCE_DIR "/models/gsm-tiny", QUIRE_SOURCE_DIR "/models/gsm-tiny");
  ASSERT_TRUE(tiny.ok()) << tiny.error().message;
  EXPECT_EQ(tiny->num_heads, 4);
  EXPECT_EQ(tiny->num_kv_heads, 2);
  EXPECT_EQ(tiny->head_dim, 64);
  EXPECT_EQ(tiny->dtype, DType::kBF16);
  EXPECT_EQ(tiny->limit.tokens, 2048);
  EXPECT_TRUE(tiny->masks.empty());
  EXPECT_EQ(tiny->serve_refusal, "");

  const quire::test::TempDir tokenizer;
  (void)tokenizer.write("tokenizer_config.json", R"({"model_max_length": 100})");
  const auto shorter = read_model_facts(QUIRE_SOURCE_DIR "/models/gsm-tiny", tokenizer.path());
  ASSERT_TRUE(shorter.ok());
  EXPECT_EQ(shorter->limit.tokens, 100);
  EXPECT_EQ(shorter->limit.source, "tokenizer_config.json's model_max_length 100");
  (void)tokenizer.write("tokenizer_config.json", "{");
  EXPECT_NE(read_model_facts(QUIRE_SOURCE_DIR "/models/gsm-tiny", tokenizer.path())->serve_refusal, "");

  const quire::test::TempDir dir;
  dir.write("config.json",
            R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"num_attention_heads":32,"hidden_size":4096,"torch_dtype":"float16","sliding_window":4096,
                "attn_logit_softcapping":30.0,"attention_chunk_size":8192,"quantization_config":{"quant_method":"fp8","kv_cache_scheme":"static"}})");
  const auto odd = read_model_facts(dir.path(), dir.path());
  ASSERT_TRUE(odd.ok()) << odd.error().message;
  EXPECT_EQ(odd->num_kv_heads, 32);
  EXPECT_EQ(odd->head_dim, 128);
  EXPECT_TRUE(odd->fp8_kv);
  EXPECT_TRUE(odd->masks.has(attention::Mask::kSlidingWindow));
  EXPECT_TRUE(odd->masks.has(attention::Mask::kSoftCap));
  EXPECT_TRUE(odd->masks.has(attention::Mask::kChunkedLocal));
  EXPECT_FALSE(odd->masks.has(attention::Mask::kSinks));
  EXPECT_NE(odd->serve_refusal, "");
}

TEST(ModelFactsFile, BadFilesAreErrors) {
  const quire::test::TempDir dir;
  EXPECT_FALSE(read_model_facts(dir.path(), dir.path()).ok());
  for (const char* bad : {"[]", "{", "{}", R"({"num_attention_heads":0,"hidden_size":64})", R"({"num_attention_heads":"4","hidden_size":64})", R"({"num_attention_heads":4})",
                          R"({"num_attention_heads":9000000000,"head_dim":64})", R"({"num_attention_heads":4,"head_dim":-64})", R"({"num_attention_heads":4,"head_dim":64,"num_key_value_heads":0})",
                          R"({"num_attention_heads":128,"hidden_size":64})"}) {
    dir.write("config.json", bad);
    EXPECT_FALSE(read_model_facts(dir.path(), dir.path()).ok()) << bad;
  }
}

}  // namespace
}  // namespace quire::commands
