// FP8 checkpoints of every form, served: log-probabilities of a prompt against the float64 model of tools/make_fp8_checkpoints.py, which
// rounds weights, activations, keys and values as each form says; and what `quire quantize` writes of the same source, against the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "commands/startup.h"
#include "config/command_line.h"
#include "kit/temp_dir.h"
#include "quantize/folder.h"
#include "quantize/job.h"

namespace quire::commands {
namespace {

using quantize::test::expected;
using quantize::test::kGoldens;

std::vector<TokenId> ids(const char* name) {
  std::vector<TokenId> out;
  for (const auto& id : expected().at(name).as_array()) out.push_back(static_cast<TokenId>(id.as_int64()));
  return out;
}

// Log-probability of every token after each position.
std::vector<std::vector<double>> expected_logprobs(const std::string& form) {
  std::vector<std::vector<double>> out;
  for (const auto& row : expected().at("logits").at(form).as_array()) {
    std::vector<double>& logits = out.emplace_back();
    for (const auto& x : row.as_array()) logits.push_back(x.to_number<double>());
    double sum = 0.0;
    for (const double x : logits) sum += std::exp(x);
    for (double& x : logits) x -= std::log(sum);
  }
  return out;
}

// Entries for the prompt's tokens 1, 2, ..., each with the 20 likeliest.
std::vector<TokenLogprobs> served(const std::string& dir, const std::vector<TokenId>& prompt) {
  const std::vector<std::string> line{"serve", dir, "--tokenizer", kGoldens + "/source", "--kv-cache-memory-bytes", "4M", "--max-num-seqs", "4", "--max-model-len", "256", "--num-threads", "1"};
  const auto command = config::parse_command_line(line);
  QUIRE_CHECK(command.ok()) << command.error().message;
  StartupTimeline timeline;
  const auto prepared = prepare(std::get<config::ServeCommand>(command.value()).options, timeline);
  QUIRE_CHECK(prepared.ok()) << prepared.error().message;
  engine::HealthMonitor health;
  const auto model = LoadedModel::load(prepared.value(), std::make_shared<engine::Metrics>(metrics_config(prepared->config)), health, timeline);
  QUIRE_CHECK(model.ok()) << model.error().message;
  engine::GenerateRequest request{.prompt = prompt};
  request.sampling.temperature = 0.0;
  request.sampling.max_tokens = 1;
  request.sampling.prompt_logprobs = 20;
  auto events = std::make_shared<engine::EventQueue>();
  EXPECT_TRUE(model.value()->engine()->submit(std::move(request), engine::SeedSource::kRequest, events).ok());
  std::vector<TokenLogprobs> out;
  for (bool done = false; !done && events->wait(60'000);)
    for (auto& e : events->drain()) {
      if (auto* p = std::get_if<engine::PromptLogprobsEvent>(&e.event)) out = std::move(p->entries);
      done = done || std::holds_alternative<engine::FinishEvent>(e.event);
    }
  model.value()->engine()->stop(std::chrono::milliseconds(0));
  return out;
}

// float32 against float64 is some 1e-6 (bfloat16 keys and values: 1e-4), until a number lies so near the middle of two e4m3 numbers that the two round it apart: one step of
// one activation, and everything after it moves, by up to 0.25 (the script's model with noise of 3e-7). So most must be equal, and none far.
void expect_near(const std::string& dir, const std::string& form, const std::string& device = "") {
  const auto prompt = ids("prompt_ids");
  const auto want = expected_logprobs((form == "quark" || form == "modelopt" ? "fp8" : form) + device);
  const auto got = served(dir, prompt);
  ASSERT_EQ(got.size(), prompt.size() - 1);
  std::vector<double> differences;
  for (std::size_t p = 0; p < got.size(); ++p) {
    differences.push_back(std::fabs(static_cast<double>(got[p].logprob) - want[p][static_cast<std::size_t>(prompt[p + 1])]));
    for (const auto& [token, logprob] : got[p].top) differences.push_back(std::fabs(static_cast<double>(logprob) - want[p][static_cast<std::size_t>(token)]));
  }
  std::ranges::sort(differences);
  std::printf("%-24s median %.2e, largest %.2e of %zu\n", (form + device).c_str(), differences[differences.size() / 2], differences.back(), differences.size());
  EXPECT_LT(differences[differences.size() / 2], 2e-5) << form;
  EXPECT_LT(differences.back(), 0.5) << form;
}

class Fp8Forms : public ::testing::TestWithParam<const char*> {};

TEST_P(Fp8Forms, AreServedAsTheScriptsModelSays) { expect_near(kGoldens + "/" + GetParam(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Forms, Fp8Forms, ::testing::Values("source", "fp8", "fp8-dynamic", "fp8-block", "compressed-tensors", "quark", "modelopt"), [](const auto& instance) {
  std::string name;
  for (const char c : std::string(instance.param))
    if (c != '-') name += c;
  return name;
});

// Scales of the file are doubled, once; what lies above 448 of them reaches 480, and scales of single tokens are of 240 steps.
TEST(Fp8Checkpoints, AreServedInFnuzAsTheScriptsModelSays) {
  setenv("QUIRE_FP8_FLAVOR", "fnuz", 1);
  for (const quantize::FormRow& row : quantize::forms()) expect_near(kGoldens + "/" + std::string(row.name), std::string(row.name), " fnuz");
  unsetenv("QUIRE_FP8_FLAVOR");
}

// What the program writes is what the program and the script read alike.
TEST(Fp8Checkpoints, WrittenOnesAreServedAlike) {
  const quire::test::TempDir dir;
  const model::ModelSpec spec = quantize::test::golden_spec();
  for (const quantize::FormRow& row : quantize::forms()) {
    const auto kv = row.kv_per_head ? quantize::KvScales::kHead : row.form == quantize::Form::kFp8Dynamic ? quantize::KvScales::kNone : quantize::KvScales::kTensor;
    const auto job = quantize::Job::open({.source_dir = kGoldens + "/source", .output_dir = dir.path() + "/" + std::string(row.name), .form = row.form, .kv = kv}, spec);
    ASSERT_TRUE(job.ok()) << job.error().message;
    if (job.value()->wants_calibration()) {
      ASSERT_TRUE(job.value()->calibrate(quantize::test::expected_ranges()).ok());
    }
    ASSERT_TRUE(job.value()->run([](std::uint64_t, std::uint64_t) {}).ok());
    expect_near(dir.path() + "/" + std::string(row.name), std::string(row.name));
  }
}

}  // namespace
}  // namespace quire::commands
