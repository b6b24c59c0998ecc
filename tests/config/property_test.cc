// Random command lines, variables and files: never a crash; either a configuration whose limits fit together, or an error that
// names what it is about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kit.h"
#include "kit/seed.h"
#include "kit/temp_dir.h"

namespace quire::config {
namespace {

using Rng = std::mt19937_64;

std::size_t below(Rng& rng, std::size_t n) { return static_cast<std::size_t>(rng() % n); }

std::string random_bytes(Rng& rng) {
  std::string out;
  for (std::size_t i = below(rng, 12); i > 0; --i) out += static_cast<char>(1 + below(rng, 255));
  return out;
}

std::string random_value(Rng& rng, const FlagRow& row) {
  static const std::vector<std::string> kOdd = {"",
                                                "-1",
                                                "0",
                                                "1",
                                                "16",
                                                "2048",
                                                "1k",
                                                "25.6k",
                                                "9223372036854775807",
                                                "nan",
                                                "1e308",
                                                "true",
                                                "{}",
                                                "{\"a\":1}",
                                                "[1,2]",
                                                "auto",
                                                "[",
                                                "--",
                                                "-",
                                                "a=b",
                                                "\xff",
                                                "null",
                                                "FULL",
                                                "1G",
                                                "x.y",
                                                "{\"level\":3}",
                                                "vllm",
                                                "0.5",
                                                "none",
                                                "é"};
  const auto words = split_words(row.allowed);
  switch (below(rng, 4)) {
    case 0: return random_bytes(rng);
    case 1:
      if (!words.empty() && words.front().find("..") == std::string_view::npos) return std::string(words[below(rng, words.size())]);
      [[fallthrough]];
    case 2: return std::to_string(below(rng, 5000));
    default: return kOdd[below(rng, kOdd.size())];
  }
}

std::vector<std::string> random_line(Rng& rng) {
  std::vector<std::string> line{below(rng, 8) == 0 ? "run" : "serve"};
  if (below(rng, 10) > 0) line.push_back("MODEL");
  const auto rows = flag_table();
  for (std::size_t i = below(rng, 7); i > 0; --i) {
    const FlagRow& row = *rows[below(rng, rows.size())];
    if (row.name == "help" || row.name == "config") continue;
    std::string name = "--" + std::string(row.name);
    switch (below(rng, 12)) {
      case 0: name = "-" + random_bytes(rng); break;
      case 1: name = "--no-" + std::string(row.name); break;
      case 2: name += "." + random_bytes(rng); break;
      case 3: name.erase(below(rng, name.size()), 1); break;
      case 4: name = "-O" + random_value(rng, row); break;
      default: break;
    }
    if (row.kind != ValueKind::kBool || below(rng, 8) == 0) {
      if (below(rng, 2) == 0)
        name += "=" + random_value(rng, row);
      else {
        line.push_back(name);
        name = random_value(rng, row);
      }
    }
    line.push_back(name);
  }
  return line;
}

void expect_sound(const ResolvedConfig& config, const std::string& shown) {
  const SchedulerConfig& s = config.engine.scheduler;
  EXPECT_GE(s.max_num_batched_tokens, s.max_num_seqs) << shown;
  EXPECT_GE(s.max_num_seqs, 1) << shown;
  EXPECT_GE(static_cast<std::int64_t>(s.num_blocks) * s.block_size, s.max_model_len) << shown;
  EXPECT_EQ(s.block_size % 16, 0) << shown;
  EXPECT_TRUE(s.enable_chunked_prefill || s.max_num_batched_tokens >= s.max_model_len) << shown;
  EXPECT_GE(config.engine.num_threads, 1) << shown;
  EXPECT_FALSE(config.api.served_names.empty()) << shown;
}

TEST(RandomCommandLines, ResolveOrNameWhatIsWrong) {
  Rng rng = ::quire::test::seeded_rng();
  test::World world;
  const auto environment = read_environment({});
  const ModelFolders folders{.model_dir = "d", .tokenizer_dir = "d", .generation_config_dir = std::nullopt};
  int resolved = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto line = random_line(rng);
    std::string shown;
    for (const std::string& word : line) shown += quote_value(word) + " ";
    auto command = parse_command_line(line);
    std::string error;
    if (!command.ok()) {
      error = command.error().message;
      EXPECT_FALSE(test::names_twice(command.error())) << command.error().to_string();
    } else if (auto* serve = std::get_if<ServeCommand>(&command.value())) {
      const auto config = resolve({.options = serve->options,
                                   .environment = environment.value(),
                                   .folders = folders,
                                   .model = world.model,
                                   .generation = world.generation,
                                   .tokenizer = world.tokenizer,
                                   .machine = world.machine});
      if (config.ok()) {
        ++resolved;
        expect_sound(config.value(), shown);
        continue;
      }
      error = config.error().message;
      EXPECT_FALSE(test::names_twice(config.error())) << config.error().to_string();
    } else {
      ++resolved;
      continue;
    }
    ++refused;
    EXPECT_FALSE(error.empty()) << shown;
    EXPECT_TRUE(error.find('-') != std::string::npos || error.find("MODEL") != std::string::npos) << shown << error;
  }
  EXPECT_GT(resolved, 300);  // the generator reaches both sides
  EXPECT_GT(refused, 300);
}

TEST(RandomFiles, NeverCrash) {
  Rng rng = ::quire::test::seeded_rng();
  ::quire::test::TempDir dir;
  const std::string good =
      "model: m\nport: 1\nserved-model-name: [a, b]\ncompilation-config: {level: 0, pass_config: {x: [1, 2]}}\napi-key:\n  - k\n";
  for (int i = 0; i < 1000; ++i) {
    std::string text = good;
    for (std::size_t n = 1 + below(rng, 4); n > 0; --n) {
      const std::size_t at = below(rng, text.size());
      if (below(rng, 2) == 0)
        text[at] = static_cast<char>(below(rng, 256));
      else
        text.insert(at, random_bytes(rng));
    }
    const auto command = parse_command_line(std::vector<std::string>{"serve", "--config", dir.write("c.yaml", text)});
    if (!command.ok()) {
      EXPECT_FALSE(command.error().message.empty());
    }
  }
}

TEST(RandomVariables, NeverCrash) {
  Rng rng = ::quire::test::seeded_rng();
  for (int i = 0; i < 2000; ++i) {
    EnvVariables variables;
    for (std::size_t n = below(rng, 6); n > 0; --n) {
      const EnvRow& row = env_table()[below(rng, env_table().size())];
      std::string name(row.name);
      if (below(rng, 4) == 0) name += random_bytes(rng);
      variables.emplace_back(name, random_value(rng, FlagRow{.name = row.name, .allowed = row.allowed}));
    }
    const auto environment = read_environment(variables);
    if (!environment.ok()) {
      EXPECT_THAT(environment.error().message, ::testing::AnyOf(::testing::HasSubstr("QUIRE_"), ::testing::HasSubstr("VLLM_"), ::testing::HasSubstr("_SCALE_CONSTANT")));
    }
  }
}

}  // namespace
}  // namespace quire::config
