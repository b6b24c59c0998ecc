// The one declaration of every flag of every subcommand: spelling, values, default, help and fate. Parsing, help,
// docs/FLAGS.md, --config files and the start-up warnings all read this table; a flag that is not here does not exist.
// Knows no model and no machine.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sampling_ranges.h"

namespace quire::config {

enum class ValueKind : std::uint8_t {
  kBool,          // --x and --no-x
  kInt,           // integer, human-readable forms allowed: 1k = 1000, 1K = 1024, 25.6k
  kFloat,         // finite decimal number
  kText,          // any string
  kChoice,        // one of `allowed`, separated by '|'
  kJson,          // JSON object: one string, or dotted keys (--x.a.b v); several uses merge
  kTextList,      // one or more strings
  kIntList,       // one or more integers
  kJsonTextList,  // JSON list of strings ('["a","b"]'), or the strings themselves
};

enum class Fate : std::uint8_t {
  kHonoured,  // does what it says
  kNoEffect,  // accepted; one warning says why and what replaced it (`fate_text`)
  kNotBuilt,  // refused unless the value asks for nothing; `fate_text` names the feature
};

enum class FlagGroup : std::uint8_t {
  kModel,
  kNumerics,
  kMemory,
  kScheduler,
  kAttention,
  kParallel,
  kSampling,
  kApi,
  kHttp,
  kLogging,
  kExtensions,
  kRun,
  kExplain,
  kEval,
  kQuantize,
  kBench,
  kProgram
};
inline constexpr int kNumFlagGroups = 17;
[[nodiscard]] std::string_view flag_group_title(FlagGroup group);

// Which subcommand takes the flag. kBench: only the benches that the row names.
enum class Audience : std::uint8_t { kServeAndRun, kServe, kRun, kRunAndChat, kChat, kExplain, kPlan, kDoctor, kEval, kQuantize, kExportTokenizer, kQuantizeAndExport, kBench, kBenchAttention, kBenchServe, kBenchLatency, kBenchThroughput };
// "attention" for `quire bench attention`; "": no bench.
[[nodiscard]] constexpr std::string_view bench_of(Audience command) {
  switch (command) {
    case Audience::kBenchAttention: return "attention";
    case Audience::kBenchServe: return "serve";
    case Audience::kBenchLatency: return "latency";
    case Audience::kBenchThroughput: return "throughput";
    default: return "";
  }
}

struct FlagRow {
  std::string_view name;          // canonical, without dashes: "max-model-len"
  std::string_view aliases = {};  // other spellings with their dashes, separated by spaces: "-tp --tp-size"
  ValueKind kind = ValueKind::kText;
  std::string_view fallback = {};  // default as text; typed getters read it when it is a value of `kind`
  std::string_view allowed = {};   // kChoice: "a|b"; kInt, kFloat, kIntList: inclusive range "lo..hi", either end may be missing
  const SamplingRange* sampling = nullptr;  // kInt, kFloat: a sampling parameter, whose range is declared there instead of in `allowed`
  std::string_view words = {};     // words that kInt and kFloat take besides numbers: "auto|-1"
  std::string_view unbuilt = {};   // known values whose feature is not built yet (kHonoured rows)
  std::string_view neutral = {};   // kNotBuilt: values that ask for nothing, besides the default
  std::string_view help = {};
  FlagGroup group = FlagGroup::kProgram;
  Fate fate = Fate::kHonoured;
  std::string_view fate_text = {};
  Audience audience = Audience::kServeAndRun;
  std::string_view benches = {};  // benches that take the flag, whatever its audience: "attention|gemm"
  bool accumulates = false;  // each use adds values; otherwise the last use stands
  bool secret = false;       // value never printed
};

// `explain`, `plan` and `doctor` take every flag of `serve`, so that a server's command line can be asked about as it stands; so do `chat` and
// the benches that run a model. A bench takes what names it besides, and the others nothing else. `quantize` takes its own and
// the few that say which model and how it is run; `export-tokenizer` where it writes.
[[nodiscard]] bool takes(Audience command, const FlagRow& row);

// Every row, in the order of help and documents.
[[nodiscard]] std::span<const FlagRow* const> flag_table();
// The row of a canonical name ("port"); own code must ask for existing names (QUIRE_CHECK).
[[nodiscard]] const FlagRow& flag(std::string_view name);

// How a user wrote a flag: "--Max_Model_Len" is not found (case counts), "--max_model_len" is; "--no-x" finds a kBool row `x`.
struct FlagMatch {
  const FlagRow* row = nullptr;  // nullptr: no such flag
  bool negated = false;
};
[[nodiscard]] FlagMatch match_flag(std::string_view spelling);
// Every spelling that the command accepts, with its dashes, for nearest-name messages.
[[nodiscard]] std::vector<std::string_view> flag_spellings(Audience command);
// "a|b|c" -> {"a","b","c"}; empty text gives an empty list.
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view text, char separator = '|');

// The parts of the table (flag_rows_*.cc).
[[nodiscard]] std::span<const FlagRow> engine_flag_rows();
[[nodiscard]] std::span<const FlagRow> parallel_flag_rows();
[[nodiscard]] std::span<const FlagRow> server_flag_rows();
[[nodiscard]] std::span<const FlagRow> bench_flag_rows();
[[nodiscard]] std::span<const FlagRow> quantize_flag_rows();

}  // namespace quire::config
