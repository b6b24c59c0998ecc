#include "config/flag_table.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>

#include "base/check.h"

namespace quire::config {
namespace {

struct Index {
  std::vector<const FlagRow*> rows;
  std::map<std::string_view, const FlagRow*> by_name;  // "port"
  std::map<std::string_view, FlagMatch> by_spelling;   // "--port", "--no-x", "-tp"
  std::deque<std::string> owned;                       // spellings made here

  void add_spelling(std::string_view spelling, FlagMatch match) {
    const bool fresh = by_spelling.emplace(spelling, match).second;
    QUIRE_CHECK(fresh) << "flag spelled twice: " << std::string(spelling);
  }
  void add(const FlagRow& row) {
    rows.push_back(&row);
    by_name.emplace(row.name, &row);
    add_spelling(owned.emplace_back("--" + std::string(row.name)), {&row, false});
    if (row.kind == ValueKind::kBool) add_spelling(owned.emplace_back("--no-" + std::string(row.name)), {&row, true});
    for (std::string_view alias : split_words(row.aliases, ' ')) {
      add_spelling(alias, {&row, false});
      if (row.kind == ValueKind::kBool && alias.starts_with("--"))
        add_spelling(owned.emplace_back("--no-" + std::string(alias.substr(2))), {&row, true});
    }
  }
  Index() {
    for (const FlagRow& row : engine_flag_rows()) add(row);
    for (const FlagRow& row : parallel_flag_rows()) add(row);
    for (const FlagRow& row : server_flag_rows()) add(row);
    for (const FlagRow& row : bench_flag_rows()) add(row);
    for (const FlagRow& row : quantize_flag_rows()) add(row);
    std::stable_sort(rows.begin(), rows.end(), [](const FlagRow* a, const FlagRow* b) { return a->group < b->group; });
  }
};

const Index& index() {
  static const Index kIndex;
  return kIndex;
}

}  // namespace

std::string_view flag_group_title(FlagGroup group) {
  static constexpr std::string_view kTitles[kNumFlagGroups] = {"Model and checkpoint",
                                                               "Numerics",
                                                               "Memory",
                                                               "Scheduler",
                                                               "Attention, compilation and graphs",
                                                               "Parallelism and placement",
                                                               "Sampling defaults",
                                                               "API",
                                                               "HTTP server",
                                                               "Logs and metrics",
                                                               "Extensions",
                                                               "One prompt (quire run) and conversations (quire chat)",
                                                               "Hypothetical models (quire explain)",
                                                               "Measuring a text (quire eval)",
                                                               "Writing an FP8 checkpoint (quire quantize) or a tokenizer (quire export-tokenizer)",
                                                               "Measuring (quire bench)",
                                                               "Program"};
  return kTitles[static_cast<int>(group)];
}

bool takes(Audience command, const FlagRow& row) {
  if (const std::string_view bench = bench_of(command); !bench.empty()) {
    const auto benches = split_words(row.benches);
    if (std::find(benches.begin(), benches.end(), bench) != benches.end()) return true;
    if (command == Audience::kBenchAttention || command == Audience::kBenchServe) return false;
  }
  if (command == Audience::kQuantize) {
    static constexpr std::string_view kModelFlags[] = {"revision", "tokenizer", "tokenizer-revision", "dtype", "num-threads", "json", "help"};
    return row.audience == command || row.audience == Audience::kQuantizeAndExport || std::find(std::begin(kModelFlags), std::end(kModelFlags), row.name) != std::end(kModelFlags);
  }
  if (command == Audience::kExportTokenizer) return row.audience == Audience::kQuantizeAndExport || row.name == "json" || row.name == "help";
  if (row.audience == Audience::kRunAndChat) return command == Audience::kRun || command == Audience::kChat;
  static constexpr Audience kTakeServes[] = {Audience::kChat, Audience::kExplain, Audience::kPlan, Audience::kDoctor, Audience::kEval, Audience::kBenchLatency, Audience::kBenchThroughput};
  const bool takes_serves = std::find(std::begin(kTakeServes), std::end(kTakeServes), command) != std::end(kTakeServes);
  return row.audience == Audience::kServeAndRun || row.audience == command || (takes_serves && row.audience == Audience::kServe);
}

std::span<const FlagRow* const> flag_table() { return index().rows; }

const FlagRow& flag(std::string_view name) {
  const auto found = index().by_name.find(name);
  QUIRE_CHECK(found != index().by_name.end()) << "no flag named " << std::string(name);
  return *found->second;
}

FlagMatch match_flag(std::string_view spelling) {
  std::string normal(spelling);
  std::replace(normal.begin(), normal.end(), '_', '-');
  const auto found = index().by_spelling.find(normal);
  return found == index().by_spelling.end() ? FlagMatch{} : found->second;
}

std::vector<std::string_view> flag_spellings(Audience command) {
  std::vector<std::string_view> out;
  for (const auto& [spelling, match] : index().by_spelling)
    if (takes(command, *match.row)) out.push_back(spelling);
  return out;
}

std::vector<std::string_view> split_words(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    const std::string_view word = text.substr(0, end);
    if (!word.empty()) words.push_back(word);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return words;
}

}  // namespace quire::config
