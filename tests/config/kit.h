// What the tests of this room share: command lines as text, and a machine and models that do not exist.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/command_line.h"
#include "config/environment.h"
#include "config/resolve.h"

namespace quire::config::test {

// Words split at spaces; single quotes keep a word together.
[[nodiscard]] std::vector<std::string> words(std::string_view line);
// `serve` options of a line such as "M --port 1"; the test fails when they do not parse.
[[nodiscard]] Options options_of(std::string_view line);
// The error of a whole command line ("serve M --prot 1"), or "" when it parses.
[[nodiscard]] std::string error_of(std::string_view line);

// Does the error, as a user sees it, begin with the same name twice ("--port: --port '9': ...")?
[[nodiscard]] bool names_twice(const Error& error);

// Llama of small widths with 131,072 positions (what a dummy checkpoint for #25104's line looks like).
[[nodiscard]] model::ModelSpec long_llama();
// gsm-tiny's shape: 2,048 positions, 6 layers, 2 KV heads of 64.
[[nodiscard]] model::ModelSpec tiny_llama();

struct World {
  model::ModelSpec model = tiny_llama();
  EnvVariables variables;
  TokenizerFacts tokenizer{.model_max_length = 2048};
  MachineFacts machine{.total_memory_bytes = std::int64_t{64} << 30, .free_memory_bytes = std::int64_t{32} << 30, .num_cores = 8};
  model::GenerationDefaults generation;
};
[[nodiscard]] Result<ResolvedConfig> resolve_line(std::string_view line, const World& world = {});
// The value, failing the test with the error when there is none.
[[nodiscard]] ResolvedConfig resolved(std::string_view line, const World& world = {});
[[nodiscard]] std::string resolve_error(std::string_view line, const World& world = {});
// Warnings (not infos) whose flag or variable is `flag`.
[[nodiscard]] std::vector<std::string> warnings_of(const ResolvedConfig& config, std::string_view flag);

}  // namespace quire::config::test
