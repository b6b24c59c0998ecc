// quire eval's numbers against ones added up here from the engine's own log-probabilities, and what it refuses.
#include "commands/eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "commands/startup.h"
#include "config/command_line.h"

namespace quire::commands {
namespace {

using testing::HasSubstr;

struct Loaded {
  Loaded() {
    const std::vector<std::string> line{"serve", std::string(QUIRE_SOURCE_DIR) + "/models/gsm-tiny", "--kv-cache-memory-bytes", "16M", "--max-num-seqs", "8"};
    const auto command = config::parse_command_line(line);
    StartupTimeline timeline;
    prepared = std::make_unique<Prepared>(prepare(std::get<config::ServeCommand>(command.value()).options, timeline).value());
    engine::HealthMonitor health;
    model = LoadedModel::load(*prepared, std::make_shared<engine::Metrics>(metrics_config(prepared->config)), health, timeline).value();
  }
  ~Loaded() { model->engine()->stop(std::chrono::milliseconds(0)); }
  std::unique_ptr<Prepared> prepared;
  std::unique_ptr<LoadedModel> model;
};

std::vector<TokenId> text(std::size_t n) {
  std::vector<TokenId> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<TokenId>((i * 37 + i * i) % 560);
  return tokens;
}

// Log-probabilities of tokens 1, 2, ... of one prompt.
std::vector<double> scored(engine::Engine& engine, std::vector<TokenId> prompt) {
  engine::GenerateRequest request{.prompt = std::move(prompt)};
  request.sampling.temperature = 0.0;
  request.sampling.max_tokens = 1;
  request.sampling.prompt_logprobs = 0;
  auto events = std::make_shared<engine::EventQueue>();
  EXPECT_TRUE(engine.submit(std::move(request), engine::SeedSource::kRequest, events).ok());
  std::vector<double> out;
  for (bool done = false; !done && events->wait(60'000);)
    for (const auto& e : events->drain()) {
      if (const auto* p = std::get_if<engine::PromptLogprobsEvent>(&e.event))
        for (const auto& entry : p->entries) out.push_back(static_cast<double>(entry.logprob));
      done = done || std::holds_alternative<engine::FinishEvent>(e.event);
    }
  return out;
}

TEST(Eval, PerplexityIsThatOfTheSecondHalves) {
  Loaded l;
  engine::Engine& engine = *l.model->engine();
  const auto tokens = text(150);
  std::int64_t told = 0;
  const auto got = perplexity(engine, tokens, {.window = 64, .bos = 3}, [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 2);
    told = done;
  });
  ASSERT_TRUE(got.ok()) << got.error().message;
  double sum = 0.0;
  for (std::size_t w = 0; w < 2; ++w) {
    std::vector<TokenId> window(tokens.begin() + static_cast<std::ptrdiff_t>(64 * w), tokens.begin() + static_cast<std::ptrdiff_t>(64 * (w + 1)));
    window.front() = 3;
    const auto logprobs = scored(engine, window);
    ASSERT_EQ(logprobs.size(), 63u);
    for (std::size_t token = 33; token < 64; ++token) sum -= logprobs[token - 1];  // tokens 33 to 63 of 64
  }
  EXPECT_EQ(got->num_scored, 62);
  EXPECT_EQ(got->num_windows, 2);
  EXPECT_DOUBLE_EQ(std::log(got->perplexity), std::log(std::exp(sum / 62)));
  EXPECT_GT(got->standard_error, 0.0);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(perplexity(engine, tokens, {.window = 64, .bos = 3, .max_windows = 1}, [](auto, auto) {})->num_scored, 31);
  EXPECT_EQ(perplexity(engine, text(64), {.window = 64}, [](auto, auto) {})->num_windows, 1);
  EXPECT_THAT(perplexity(engine, text(10), {.window = 64}, [](auto, auto) {}).error().message, HasSubstr("the text has 10 tokens, and one window has 64: at least 64 tokens are needed (--max-model-len 11 makes a window of 10)"));
}

TEST(Eval, ContinuationsAreGreedyAndPartWhereTheyDiffer) {
  Loaded l;
  const auto a = continuations(*l.model->engine(), text(200), {.prompt_tokens = 16, .max_tokens = 12, .count = 3}, [](auto, auto) {});
  const auto b = continuations(*l.model->engine(), text(200), {.prompt_tokens = 16, .max_tokens = 12, .count = 3}, [](auto, auto) {});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a.value(), b.value());
  ASSERT_EQ(a->size(), 3u);
  EXPECT_EQ(a->front().size(), 12u);
  EXPECT_EQ(common_prefix(std::vector<TokenId>{1, 2, 3}, std::vector<TokenId>{1, 2, 4}), 2);
  EXPECT_EQ(common_prefix(std::vector<TokenId>{1, 2}, std::vector<TokenId>{1, 2, 4}), 2);
}

TEST(Eval, ATextBelowOneWindowIsToldWhatIsNeeded) {
  EXPECT_TRUE(check_windows(512, 512).ok());
  EXPECT_TRUE(check_windows(4, 4).ok());
  EXPECT_THAT(check_windows(1, 512).error().message, testing::StrEq("the text has 1 token, and one window has 512: at least 512 tokens are needed"));
  EXPECT_THAT(check_windows(511, 512).error().message, HasSubstr("--max-model-len 512 makes a window of 511"));
  EXPECT_THAT(check_windows(1000, 3).error().message, HasSubstr("at least --max-model-len 5 is needed"));
}

EvalResult measured() {
  EvalResult r{.model = "m", .text = "t.txt"};
  r.asked = {.kv_format = "fp8_e4m3 (OCP)", .perplexity = {.perplexity = 11.0}, .answers = {{1, 2, 3, 4}, {5, 6, 7, 8}}};
  r.with_16_bit = EvalSide{.kv_format = "bfloat16", .perplexity = {.perplexity = 10.0}, .answers = {{1, 2, 9, 4}, {5, 6, 7, 8}}};
  r.gate.layers = {{.keys = {.saturated = 0.005, .flushed = 0.02, .error = 0.03, .largest = 7.0}, .values = {}, .attention_error = 0.25}, {.keys = {}, .values = {.saturated = std::nan("")}, .attention_error = 0.01}};
  return r;
}

TEST(Eval, TheChartShowsLayersAndAnswers) {
  const BarChart chart = eval_chart(measured());
  EXPECT_THAT(chart.subtitle, HasSubstr("perplexity 11.0000 against 10.0000 (10.000 %)"));
  ASSERT_EQ(chart.panels.size(), 4u);
  EXPECT_DOUBLE_EQ(*chart.panels[0].groups[0].bars[0].value, 0.5);
  EXPECT_FALSE(chart.panels[0].groups[1].bars[1].value.has_value());
  EXPECT_EQ(chart.panels[0].groups[1].bars[1].note, "not finite");
  EXPECT_DOUBLE_EQ(chart.panels[0].reference, 1.0);
  EXPECT_DOUBLE_EQ(*chart.panels[1].groups[0].bars[0].value, 2.0);
  EXPECT_DOUBLE_EQ(*chart.panels[2].groups[0].bars[0].value, 25.0);
  EXPECT_DOUBLE_EQ(chart.panels[2].reference, 12.5);
  EXPECT_EQ(chart.panels[3].groups[0].bars[0].note, "2 of 4");
  EXPECT_EQ(chart.panels[3].groups[1].bars[0].note, "4 of 4");
  EXPECT_THAT(svg_text(chart), testing::AllOf(HasSubstr(">layer 1<"), HasSubstr(">limit 12.5<"), HasSubstr(">answer 2<")));
}

TEST(Eval, TheDocumentHasTheLargestNumbers) {
  const auto gate = eval_json(measured()).at("kv_gate").as_object();
  EXPECT_EQ(gate.at("layers").as_array()[0].at("keys").at("largest").as_double(), 7.0);
}

TEST(Eval, TheCommandNeedsAText) {
  EXPECT_THAT(config::parse_command_line(std::vector<std::string>{"eval", "M"}).error().message, HasSubstr("--text is missing: quire eval MODEL --text FILE"));
  const auto command = config::parse_command_line(std::vector<std::string>{"eval", "M", "--text", "f", "--max-windows", "3", "--kv-cache-dtype", "fp8", "--plot", "p.svg"});
  ASSERT_TRUE(command.ok()) << command.error().message;
  EXPECT_EQ(std::get<config::EvalCommand>(command.value()).text, "f");
  EXPECT_EQ(std::get<config::EvalCommand>(command.value()).max_windows, 3);
  EXPECT_EQ(std::get<config::EvalCommand>(command.value()).plot, "p.svg");
  EXPECT_FALSE(config::parse_command_line(std::vector<std::string>{"serve", "M", "--text", "f"}).ok());
  EXPECT_FALSE(config::parse_command_line(std::vector<std::string>{"serve", "M", "--plot", "f"}).ok());
}

}  // namespace
}  // namespace quire::commands
