#include "config/help.h"

#include <algorithm>

#include "attention/capability.h"
#include "attention/device_family.h"
#include "config/flag_words.h"
#include "config/values.h"

namespace quire::config {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kColumn = 32;  // where descriptions start

// Words of `text` in lines of at most `kWidth`, each starting at `kColumn`; the first line continues `out`.
void wrap(std::string& out, std::size_t column, std::string_view text) {
  if (column + 1 > kColumn) {
    out += '\n';
    column = 0;
  }
  out.append(kColumn - column, ' ');
  column = kColumn;
  for (std::string_view word : split_words(text, ' ')) {
    if (column > kColumn && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(kColumn, ' ');
      column = kColumn;
    }
    if (column > kColumn) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

std::string description(const FlagRow& row) {
  const std::string out(row.help);
  std::string facts;
  if (has_range(row))
    facts = allowed_text(row);
  else if (!row.allowed.empty())
    facts = usable_values(row);
  else if (row.name == "attention-backend")
    for (const std::string_view name : attention::built_backends(attention::kServedFamily)) facts += (facts.empty() ? "" : ", ") + std::string(name);
  if (!row.fallback.empty() && row.name != "help") facts += (facts.empty() ? "default " : "; default ") + std::string(row.fallback);
  return facts.empty() ? out : out + " (" + facts + ")";
}

bool belongs(const FlagRow& row, Audience command) {
  if (command == Audience::kExplain) return row.audience == Audience::kExplain || row.name == "json" || row.name == "help";
  return takes(command, row);
}

// The names of the flags with one fate, as a paragraph.
std::string names_with(Fate fate, Audience command) {
  std::string out, line = " ";
  for (const FlagRow* row : flag_table()) {
    if (row->fate != fate || !belongs(*row, command)) continue;
    const std::string name = " --" + std::string(row->name);
    if (line.size() + name.size() > kWidth) {
      out += line + "\n";
      line = " ";
    }
    line += name;
  }
  return out + line + "\n";
}

}  // namespace

std::string program_help() {
  return "quire: LLM inference and an OpenAI-compatible server\n"
         "\n"
         "  quire serve MODEL [flags]               serve MODEL over HTTP (port 8000)\n"
         "  quire run MODEL --prompt TEXT [flags]   answer one prompt and stop\n"
         "  quire chat MODEL [flags]                talk with MODEL, or with a server: --base-url URL\n"
         "  quire explain MODEL [flags]             which attention backend serves MODEL on a device, and why\n"
         "  quire plan MODEL [flags]                the memory that serve would take, item by item\n"
         "  quire doctor MODEL [flags]              check the kernels serve would run against a reference\n"
         "  quire eval MODEL --text FILE [flags]    perplexity, and what an FP8 KV cache costs\n"
         "  quire quantize MODEL --format FORM --output DIR\n"
         "                                          write an FP8 checkpoint of a 16-bit one\n"
         "  quire export-tokenizer M.gguf --output DIR\n"
         "  quire bench attention [flags]           time the attention kernels of this machine\n"
         "  quire bench serve --base-url URL        load a server and measure it (any of the OpenAI API)\n"
         "  quire bench latency|throughput MODEL    measure the engine here, and where a step's time goes\n"
         "  quire --version [--json]                version\n"
         "  quire serve --help, quire run --help    every flag\n"
         "\n"
         "MODEL: a folder in Hugging Face form, a .gguf file, or a hub id (org/name) in the local cache.\n"
         "Flag names, defaults and --config files are those of `vllm serve`.\n";
}

// The rows that a command has besides those of serve, and --json.
std::string own_flags(Audience command) {
  std::string out;
  const std::string_view bench = bench_of(command);
  for (const FlagRow* row : flag_table()) {
    const bool of_serve = row->audience == Audience::kServeAndRun || row->audience == Audience::kServe;
    const auto benches = split_words(row->benches);
    const bool named = !bench.empty() && std::find(benches.begin(), benches.end(), bench) != benches.end();
    if (!named && (!takes(command, *row) || of_serve) && row->name != "json") continue;
    const std::string left = "  " + spellings(*row);
    out += left;
    wrap(out, left.size(), description(*row));
  }
  return out;
}

constexpr std::string_view kTakesServes = "\nEvery flag of `quire serve` is taken; quire serve --help lists them.\n";

std::string explain_help() {
  std::string out =
      "quire explain MODEL [--device NAME] [flags of serve]\n"
      "\nSays which attention backends serve MODEL with these flags on a device, present or not, with every\n"
      "reason, and what of the command line is not built yet. Reads config.json only (with --scales, the\n"
      "weights' headers and scale tensors too). Exit status 0\n"
      "whenever there is an answer, also when nothing serves.\n"
      "\n  --device NAME                 ";
  std::size_t column = kColumn;
  for (const attention::DeviceFamily& f : attention::device_families()) {
    const std::string word = std::string(f.name) + (f.name == attention::kServedFamily ? " (default)" : "");
    if (column > kColumn) out += ",";
    if (column + word.size() + 3 > kWidth) out += "\n" + std::string(kColumn, ' '), column = kColumn;
    if (column > kColumn) out += " ";
    out += word;
    column += word.size() + 2;
  }
  out += "\n";
  for (const FlagRow* row : flag_table()) {
    if (row->audience != Audience::kExplain && row->name != "json") continue;
    const std::string left = "  " + spellings(*row);
    out += left;
    wrap(out, left.size(), description(*row));
  }
  return out + std::string(kTakesServes);
}

std::string plan_help() {
  return "quire plan MODEL [flags of serve] [--json]\n"
         "\nSays how much memory `quire serve` would take with the same flags, item by item and from which flags each\n"
         "follows, the longest context and the largest batch, and what to change when it does not fit. Reads\n"
         "config.json and the headers of the weights only; with --load-format dummy, config.json alone. Exit\n"
         "status 0 when the plan fits, 1 when it does not or cannot be made, 2 for a wrong command line.\n"
         "\nEvery flag of `quire serve` is taken; quire serve --help lists them.\n";
}

std::string doctor_help() {
  return "quire doctor MODEL [flags of serve] [--verbose] [--json]\n"
         "\nLoads MODEL as `quire serve` would with the same flags and runs the self-check on the device, the KV cache\n"
         "and the graphs that would serve: every row class, eager and replayed, against the reference under derived\n"
         "bounds. Prints a line for each kind of check and row class, and each check that failed; with --verbose\n"
         "one line for each check with its worst element. --json has every check. Exit status 0 when all passed, 1\n"
         "when one failed or the model could not be loaded.\n"
         "\nEvery flag of `quire serve` is taken; quire serve --help lists them.\n";
}

std::string bench_attention_help() {
  std::string out =
      "quire bench attention [--shapes NAME... | --filter TEXT] [--backend NAME] [--plot FILE.svg] [flags]\n"
      "\nTimes one layer of paged causal attention (32 query heads, 8 KV heads) on this machine's kernels,\n"
      "each shape after a check of sampled rows against the reference. Decode is compared with the rate at\n"
      "which the same threads read memory, prefill with the rate at which they multiply and add; both are\n"
      "measured first. What does not fit in memory or in --time-limit is skipped, with the reason.\n"
      "\nA shape is PHASE-dD-NxL: decode or prefill, head size, sequences, tokens of each (k: 1024). Without\n"
      "--shapes and --filter: the table of docs/PERFORMANCE.md.\n\n";
  return out + own_flags(Audience::kBenchAttention);
}

std::string chat_help() {
  return "quire chat MODEL [flags of serve]\n"
         "quire chat --base-url URL [--model NAME]\n"
         "\nA conversation in the terminal, with MODEL loaded here or with a server of the OpenAI API (its\n"
         "key: OPENAI_API_KEY). Answers appear as they are made; Ctrl-C stops an answer and keeps what there\n"
         "is of it; Ctrl-D, or Ctrl-C twice at the prompt, leaves. A line that ends in \\ goes on in the next\n"
         "one. /help lists the commands. Without a terminal each line of standard input is a turn and\n"
         "answers alone are printed; with --json the whole conversation, as one document at the end.\n\n" +
         own_flags(Audience::kChat) + std::string(kTakesServes);
}

std::string bench_serve_help() {
  return "quire bench serve --base-url URL [--model NAME] [flags]\n"
         "\nSends a load to a server of the OpenAI API and prints time to first token (TTFT), time per output\n"
         "token (TPOT), gaps between pieces (ITL), whole latencies (E2EL), throughput and failures by\n"
         "reason. Prompts are random words from a seed, as many as make the tokens asked for (two first\n"
         "questions measure that), or the lines of --dataset. Names are those of `vllm bench serve`; so are\n"
         "the names of --json. The server's key is OPENAI_API_KEY. Exit status 1 when a request failed.\n\n" +
         own_flags(Audience::kBenchServe);
}

std::string bench_latency_help() {
  return "quire bench latency MODEL [flags of serve]\n"
         "\nLoads MODEL as `quire serve` would, runs batches of random prompts and prints the time of a batch\n"
         "and where a step's time goes: scheduling, attention, linear layers, other kernels, sampling, and\n"
         "the rest.\n\n" +
         own_flags(Audience::kBenchLatency) + std::string(kTakesServes);
}

std::string bench_throughput_help() {
  return "quire bench throughput MODEL [flags of serve]\n"
         "\nLoads MODEL as `quire serve` would, gives it every prompt at once and prints requests and tokens\n"
         "per second and where a step's time goes.\n\n" +
         own_flags(Audience::kBenchThroughput) + std::string(kTakesServes);
}

std::string bench_help() {
  return "quire bench attention [flags]           time the attention kernels of this machine\n"
         "quire bench serve --base-url URL        load a server and measure it\n"
         "quire bench latency MODEL [flags]       time of a batch, in this process\n"
         "quire bench throughput MODEL [flags]    tokens per second, in this process\n"
         "\nquire bench NAME --help shows its flags; each takes --json and --plot FILE.svg.\n";
}

std::string eval_help() {
  return "quire eval MODEL --text FILE [--plot FILE.svg] [flags of serve] [--json]\n"
         "\nPerplexity of a text in windows of 512 tokens, of which the second half is scored (llama.cpp's default).\n"
         "With an FP8 KV cache also: the same with a 16-bit one, where greedy answers part, and what storing and\n"
         "attention lose in each layer. Exit status 1 when that is over the limits that serve refuses at.\n\n" +
         own_flags(Audience::kEval) + std::string(kTakesServes);
}

// Every flag that the command takes.
std::string flags_of(Audience command) {
  std::string out;
  for (const FlagRow* row : flag_table()) {
    if (!takes(command, *row)) continue;
    const std::string left = "  " + spellings(*row);
    out += left;
    wrap(out, left.size(), description(*row));
  }
  return out;
}

std::string export_tokenizer_help() {
  return "quire export-tokenizer MODEL.gguf --output DIR [--overwrite] [--json]\n"
         "\nWrites the tokenizer and chat template of a GGUF file as the files that Hugging Face's libraries\n"
         "read, with a config.json of its metadata.\n\n" +
         flags_of(Audience::kExportTokenizer);
}

std::string quantize_help() {
  return "quire quantize MODEL --format FORM --output DIR [--calibration FILE] [--kv none|tensor|head] [flags]\n"
         "\nWrites a checkpoint with FP8 weights of a 16-bit one, in a form that other programs read too. Scales of\n"
         "activations and of the KV cache are measured with the 16-bit model over a text. A run that was stopped\n"
         "goes on when it is given again, and ends with the same bytes; a folder that holds anything else is left\n"
         "alone. The source and its tokenizer stay as they are.\n\n" +
         flags_of(Audience::kQuantize);
}

std::string command_help(Audience command) {
  if (command == Audience::kQuantize) return quantize_help();
  if (command == Audience::kExportTokenizer) return export_tokenizer_help();
  if (command == Audience::kEval) return eval_help();
  if (command == Audience::kBench) return bench_help();
  if (command == Audience::kBenchAttention) return bench_attention_help();
  if (command == Audience::kBenchServe) return bench_serve_help();
  if (command == Audience::kBenchLatency) return bench_latency_help();
  if (command == Audience::kBenchThroughput) return bench_throughput_help();
  if (command == Audience::kChat) return chat_help();
  if (command == Audience::kExplain) return explain_help();
  if (command == Audience::kPlan) return plan_help();
  if (command == Audience::kDoctor) return doctor_help();
  std::string out = command == Audience::kRun ? "quire run MODEL --prompt TEXT [flags]\n" : "quire serve MODEL [flags]\n";
  out +=
      "\nUnderscores in names equal dashes. Integers may end in k, m, g (1000) or K, M, G (1024).\n"
      "JSON flags take one string or dotted keys (--compilation-config.cudagraph_mode NONE).\n";
  for (int group = 0; group < kNumFlagGroups; ++group) {
    bool titled = false;
    for (const FlagRow* row : flag_table()) {
      if (static_cast<int>(row->group) != group || row->fate != Fate::kHonoured || !belongs(*row, command)) continue;
      if (!titled) out += "\n" + std::string(flag_group_title(row->group)) + ":\n";
      titled = true;
      const std::string left = "  " + spellings(*row);
      out += left;
      wrap(out, left.size(), description(*row));
    }
  }
  out += "\nAccepted without effect, with one warning that says why (docs/FLAGS.md lists the reasons):\n" + names_with(Fate::kNoEffect, command);
  out += "\nNot built yet, refused unless the value asks for nothing:\n" + names_with(Fate::kNotBuilt, command);
  return out;
}

}  // namespace quire::config
