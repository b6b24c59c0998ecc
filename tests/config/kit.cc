#include "kit.h"

#include <gtest/gtest.h>

namespace quire::config::test {

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out;
  std::string word;
  bool quoted = false, open = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      open = true;
    } else if (c == ' ' && !quoted) {
      if (open) out.push_back(word);
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) out.push_back(word);
  return out;
}

Options options_of(std::string_view line) {
  auto arguments = words(line);
  arguments.insert(arguments.begin(), "serve");
  auto command = parse_command_line(arguments);
  EXPECT_TRUE(command.ok()) << line << ": " << (command.ok() ? "" : command.error().message);
  if (!command.ok() || !std::holds_alternative<ServeCommand>(command.value())) return {};
  return std::get<ServeCommand>(command.value()).options;
}

std::string error_of(std::string_view line) {
  const auto command = parse_command_line(words(line));
  return command.ok() ? "" : command.error().message;
}

bool names_twice(const Error& error) {
  const std::string text = error.to_string(), start = error.param + ": ";
  if (error.param.empty() || !text.starts_with(start)) return false;
  const std::string rest = text.substr(start.size());
  return rest.starts_with(error.param) || rest.starts_with("'" + error.param) || rest.find(" problems:") < 6;
}

model::ModelSpec tiny_llama() {
  model::ModelSpec spec;
  spec.architecture = "LlamaForCausalLM";
  spec.model_type = "llama";
  spec.hidden_size = 256;
  spec.intermediate_size = 768;
  spec.num_layers = 6;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.vocab_size = 576;
  spec.max_position_embeddings = 2048;
  spec.tie_word_embeddings = true;
  return spec;
}

model::ModelSpec long_llama() {
  model::ModelSpec spec = tiny_llama();
  spec.max_position_embeddings = 131072;
  return spec;
}

Result<ResolvedConfig> resolve_line(std::string_view line, const World& world) {
  auto arguments = words(line);
  arguments.insert(arguments.begin(), "serve");
  auto command = parse_command_line(arguments);
  if (!command.ok()) return command.error();
  auto environment = read_environment(world.variables);
  if (!environment.ok()) return environment.error();
  const ModelFolders folders{.model_dir = "dir", .tokenizer_dir = "dir", .generation_config_dir = "dir"};
  return resolve({.options = std::get<ServeCommand>(command.value()).options,
                  .environment = environment.value(),
                  .folders = folders,
                  .model = world.model,
                  .generation = world.generation,
                  .tokenizer = world.tokenizer,
                  .machine = world.machine});
}

ResolvedConfig resolved(std::string_view line, const World& world) {
  auto result = resolve_line(line, world);
  EXPECT_TRUE(result.ok()) << line << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(result).value() : ResolvedConfig{};
}

std::string resolve_error(std::string_view line, const World& world) {
  const auto result = resolve_line(line, world);
  return result.ok() ? "" : result.error().message;
}

std::vector<std::string> warnings_of(const ResolvedConfig& config, std::string_view flag) {
  std::vector<std::string> out;
  for (const Adjustment& a : config.adjustments) {
    if (a.severity == Adjustment::Severity::kWarning && a.flag == flag) out.push_back(a.text);
  }
  return out;
}

}  // namespace quire::config::test
