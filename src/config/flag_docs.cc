// docs/FLAGS.md and docs/ENV.md from the flag and environment tables, and every other page that a table makes.
#include <fstream>

#include "attention/capability.h"
#include "config/compilation.h"
#include "config/environment.h"
#include "config/flag_words.h"
#include "config/help.h"
#include "config/values.h"
#include "graph/document.h"
#include "model/gguf_architectures.h"
#include "model/quantization.h"
#include "model/spec.h"
#include "ops/linear_table.h"

namespace quire::config {
namespace {

std::string_view value_word(const FlagRow& row) {
  switch (row.kind) {
    case ValueKind::kBool: return "";
    case ValueKind::kInt: return " N";
    case ValueKind::kFloat: return " X";
    case ValueKind::kJson: return " JSON";
    case ValueKind::kIntList: return " N...";
    case ValueKind::kTextList:
    case ValueKind::kJsonTextList: return " TEXT...";
    case ValueKind::kChoice: return " WORD";
    case ValueKind::kText: return " TEXT";
  }
  return "";
}

}  // namespace

std::string spellings(const FlagRow& row) {
  std::string out = (row.kind == ValueKind::kBool && row.name != "help" ? "--[no-]" : "--") + std::string(row.name);
  for (std::string_view alias : split_words(row.aliases, ' ')) out += ", " + std::string(alias);
  if (row.name == "compilation-config") out += ", -O";
  return out + std::string(value_word(row));
}

std::string usable_values(const FlagRow& row) {
  std::string out;
  for (std::string_view word : split_words(row.allowed)) {
    if (!is_word(row.unbuilt, word)) out += (out.empty() ? "" : ", ") + std::string(word);
  }
  return out;
}

bool has_range(const FlagRow& row) { return row.kind == ValueKind::kInt || row.kind == ValueKind::kIntList || row.kind == ValueKind::kFloat; }

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string values_cell(const FlagRow& row) {
  if (row.kind == ValueKind::kBool) return "";
  return has_range(row) || row.allowed.empty() ? allowed_text(row) : usable_values(row);
}

std::string fate_cell(const FlagRow& row) {
  if (row.fate == Fate::kNoEffect) return "no effect: " + std::string(row.fate_text);
  if (row.fate == Fate::kNotBuilt) return "not built yet: " + std::string(row.fate_text);
  if (row.unbuilt.empty()) return "";
  std::string later;
  for (std::string_view word : split_words(row.unbuilt)) later += (later.empty() ? "" : ", ") + std::string(word);
  return later + ": not built yet";
}

// Who takes the flag, as a word of docs/FLAGS.md.
std::string audience_word(Audience audience) {
  switch (audience) {
    case Audience::kServe: return "serve";
    case Audience::kRun: return "run";
    case Audience::kRunAndChat: return "run, chat";
    case Audience::kChat: return "chat";
    case Audience::kExplain: return "explain";
    case Audience::kPlan: return "plan";
    case Audience::kDoctor: return "doctor";
    case Audience::kEval: return "eval";
    case Audience::kQuantize: return "quantize";
    case Audience::kQuantizeAndExport: return "quantize, export-tokenizer";
    case Audience::kExportTokenizer: return "export-tokenizer";
    case Audience::kServeAndRun: return "both";
    case Audience::kBench:
    case Audience::kBenchServe:
    case Audience::kBenchLatency:
    case Audience::kBenchThroughput:
    case Audience::kBenchAttention: break;
  }
  return "";
}

std::string audience_text(const FlagRow& row) {
  std::string out = audience_word(row.audience);
  for (std::string_view bench : split_words(row.benches)) out += (out.empty() ? "" : ", ") + ("bench " + std::string(bench));
  return out;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Error{ErrorCode::kIo, path + ": cannot be written", path};
  return {};
}

}  // namespace

std::string flags_markdown() {
  std::string out =
      "# Flags of `quire serve`, `quire run`, `quire chat`, `quire explain`, `quire plan`, `quire doctor`, `quire eval`, `quire quantize`, `quire export-tokenizer` and `quire bench`\n\n"
      "Made by `quire flags-doc` from the flag table (`src/config/flag_rows_*.cc`); a test fails when this page is stale.\n\n"
      "Spelling: underscores equal dashes; every switch has `--x` and `--no-x`; integers may end in `k`, `m`, `g` (powers of 1000; `25.6k` = 25600)\n"
      "or `K`, `M`, `G` (powers of 1024); JSON flags take one string or dotted keys (`--compilation-config.cudagraph_mode NONE`; a key that ends in "
      "`+`\n"
      "appends a comma-separated list). `--config file.yaml` holds the same names as `key: value`; the command line wins. Unknown flags, keys and "
      "values are errors\n"
      "(exit code 2) that name the nearest valid one. A flag without effect is answered by one warning; a flag whose feature is not built yet is "
      "refused,\n"
      "unless its value asks for nothing. `quire plan`, `quire doctor`, `quire eval`, `quire chat` and `quire bench latency|throughput` take the flags of `serve`; `quire explain` takes every flag of `serve` and refuses none;\n"
      "its `--device` takes the names of docs/CAPABILITIES.md. `quire quantize` takes the flags of its own section and `--revision`, `--tokenizer`,\n"
      "`--tokenizer-revision`, `--dtype`, `--num-threads` and `--json`; `quire export-tokenizer` takes `--output`, `--overwrite` and `--json`.\n";
  for (int group = 0; group < kNumFlagGroups; ++group) {
    out += "\n## " + std::string(flag_group_title(static_cast<FlagGroup>(group))) +
           "\n\n| flag | of | values | default | meaning | remarks |\n|---|---|---|---|---|---|\n";
    for (const FlagRow* row : flag_table()) {
      if (static_cast<int>(row->group) != group) continue;
      out += "| `" + spellings(*row) + "` | " + audience_text(*row) + " | " + escaped(values_cell(*row)) + " | " + escaped(row->fallback) +
             " | " + escaped(row->help) + " | " + escaped(fate_cell(*row)) + " |\n";
    }
  }
  out += "\n## Keys of `--compilation-config`\n\n| key | meaning |\n|---|---|\n";
  for (const CompilationKey& key : compilation_keys()) {
    out += "| `" + std::string(key.name) + "` | " + (key.fate == Fate::kNoEffect ? "no effect: " : "") + std::string(key.text) + " |\n";
  }
  out += "\nWhich mode runs follows from what the attention backend supports: [GRAPH_MODES.md](GRAPH_MODES.md).\n";
  return out;
}

std::string env_markdown() {
  std::string out =
      "# Environment variables\n\n"
      "Made by `quire flags-doc` from the registry (`src/config/env_rows.cc`); a test fails when this page is stale.\n\n"
      "An unknown `QUIRE_*` variable is an error that names the nearest valid one; an unknown `VLLM_*` variable is a warning (Kubernetes injects "
      "some).\n"
      "A bad value is an error. Switches take 1, true, yes, on / 0, false, no, off. A flag wins over a variable.\n\n"
      "| variable | values | default | meaning |\n|---|---|---|---|\n";
  for (const EnvRow& row : env_table()) {
    const bool honoured = row.fate == EnvFate::kHonoured;
    const FlagRow shape{.name = row.name, .kind = row.kind, .allowed = row.allowed};
    std::string text(row.text);
    if (row.fate == EnvFate::kReplaced) text = "no effect, one warning: " + text;
    if (row.fate == EnvFate::kIgnored) text = "ignored, told at start: " + text;
    out += "| `" + std::string(row.name) + "` | " + (honoured ? escaped(allowed_text(shape)) : "") + " | " + std::string(row.fallback) + " | " +
           escaped(text) + " |\n";
  }
  return out;
}

Status write_docs(const std::string& folder) {
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/FLAGS.md", flags_markdown()));
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/ENV.md", env_markdown()));
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/GRAPH_MODES.md", graph::graph_modes_markdown()));
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/QUANTIZATION.md", model::quantization_markdown()));
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/GGUF.md", model::gguf_markdown()));
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/FAMILIES.md", model::families_markdown()));
  QUIRE_RETURN_IF_ERROR(write_file(folder + "/LINEAR.md", ops::linear_markdown()));
  return write_file(folder + "/CAPABILITIES.md", attention::capabilities_markdown());
}

}  // namespace quire::config
