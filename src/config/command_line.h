// argv to one subcommand with its checked options. Spelling rules are vLLM's: underscores equal dashes, -tp and other letters
// after one dash, -O3, dotted JSON keys, lists, --no-x, --config. Executes nothing; every problem is reported at once.
//
// Scanned here and not by a library: CLI11 for one knows no multi-letter single-dash names and no dotted keys, rewrites values in
// square brackets, and stops at the first error.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "config/options.h"

namespace quire::config {

inline constexpr int kUsageExitCode = 2;  // for every error that this header returns

struct ServeCommand {
  Options options;
};

struct RunRequest {
  std::string prompt;
  bool chat = false;
  std::int64_t max_tokens = 0;  // the flag's default when it is not given
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k, seed;
};

struct RunCommand {
  Options options;
  RunRequest request;
};

// A conversation, with a model that is loaded or with a server (--base-url; then MODEL may be missing).
struct ChatCommand {
  Options options;
};

struct VersionCommand {
  bool json = false;
};

struct HelpCommand {
  std::string text;  // for standard output
};

struct ExplainCommand {
  Options options;     // features that are not built are no problem here: not_built() lists them
  std::string device;  // as given; "": none
};

struct PlanCommand {
  Options options;
};

struct DoctorCommand {
  Options options;
};

// Takes no MODEL.
struct BenchAttentionCommand {
  Options options;
};

// Takes no MODEL of its own: its name on the server.
struct BenchServeCommand {
  Options options;
};

struct BenchLatencyCommand {
  Options options;
};

struct BenchThroughputCommand {
  Options options;
};

struct EvalCommand {
  Options options;
  std::string text;               // path
  std::int32_t max_windows = 0;   // 0: all
  std::string plot;               // path; empty: none
};

// `format` and `kv` are words of the flag table.
struct QuantizeCommand {
  Options options;
  std::string format, output, kv;
  std::string calibration;           // path; "": the built-in text
  std::uint64_t max_shard_bytes = 0; // 0: as the source's files
  bool overwrite = false;
};

struct ExportTokenizerCommand {
  Options options;
  std::string output;
  bool overwrite = false;
};

// Hidden: writes the generated documents (help.h, write_docs) into `folder`.
struct FlagsDocCommand {
  std::string folder = "docs";
};

using Command = std::variant<ServeCommand, RunCommand, ChatCommand, ExplainCommand, PlanCommand, DoctorCommand, EvalCommand, QuantizeCommand, ExportTokenizerCommand, BenchAttentionCommand, BenchServeCommand, BenchLatencyCommand, BenchThroughputCommand, VersionCommand, HelpCommand, FlagsDocCommand>;

// `arguments` without the program's name. An error's message lists every problem, each naming its flag.
[[nodiscard]] Result<Command> parse_command_line(std::span<const std::string> arguments);
[[nodiscard]] Result<Command> parse_command_line(int argc, const char* const* argv);

}  // namespace quire::config
