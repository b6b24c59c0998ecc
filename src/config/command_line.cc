#include "config/command_line.h"

#include <algorithm>

#include "base/suggest.h"
#include "config/compilation.h"
#include "config/config_file.h"
#include "config/help.h"
#include "config/values.h"

namespace quire::config {
namespace {

constexpr std::size_t kMaxArguments = 65536;
constexpr std::size_t kMaxDottedDepth = 8;

bool looks_like_flag(std::string_view token) {
  if (token.size() < 2 || token.front() != '-') return false;
  return !((token[1] >= '0' && token[1] <= '9') || token[1] == '.');  // -1 and -.5 are values
}

std::string owner_of(const FlagRow& row) {
  switch (row.audience) {
    case Audience::kRun:
    case Audience::kRunAndChat: return "run";
    case Audience::kChat: return "chat";
    case Audience::kExplain: return "explain";
    case Audience::kEval: return "eval";
    case Audience::kQuantize:
    case Audience::kQuantizeAndExport: return "quantize";
    case Audience::kBench: return "bench " + std::string(split_words(row.benches).front());
    default: return "serve";
  }
}

bool takes_list(ValueKind kind) { return kind == ValueKind::kTextList || kind == ValueKind::kIntList || kind == ValueKind::kJsonTextList; }

// One flag token taken apart: "--compilation-config.cudagraph_mode=FULL" -> base, path, attached value.
struct FlagToken {
  std::string spelling;  // "--compilation-config", for messages
  std::string path;      // "cudagraph_mode"; may end with '+' (append to a list)
  std::optional<std::string> value;
};

FlagToken take_apart(std::string_view token) {
  FlagToken out;
  if (token.starts_with("-O") && token.size() > 2) {  // -O3, -O=3, -O.level, -O{...}
    out.spelling = "-O";
    std::string_view rest = token.substr(2);
    if (rest.front() != '=' && rest.front() != '.') {
      out.value = std::string(rest);
      return out;
    }
    token = rest;
  }
  const std::size_t equals = token.find('=');
  if (equals != std::string_view::npos) out.value = std::string(token.substr(equals + 1));
  std::string_view name = token.substr(0, equals);
  const std::size_t dot = name.find('.');
  if (dot != std::string_view::npos) out.path = std::string(name.substr(dot + 1));
  if (out.spelling.empty()) out.spelling = std::string(name.substr(0, dot));
  return out;
}

// {"a": {"b": value}} from "a.b"; "b+" makes a list of the comma-separated parts. nullopt: an empty or too deep path.
std::optional<boost::json::object> dotted_object(std::string_view path, std::string_view text) {
  const bool append = path.ends_with('+');
  if (append) path.remove_suffix(1);
  const auto keys = split_words(path, '.');
  if (keys.empty() || keys.size() > kMaxDottedDepth || path.starts_with('.') || path.ends_with('.') || path.find("..") != std::string_view::npos)
    return std::nullopt;
  boost::json::value value;
  if (append) {
    boost::json::array items;
    for (std::string_view item : split_words(text, ',')) items.push_back(json_scalar(item));
    value = std::move(items);
  } else {
    value = json_scalar(text);
  }
  for (auto key = keys.rbegin(); key != keys.rend(); ++key)
    value = boost::json::object{{boost::json::string_view(key->data(), key->size()), std::move(value)}};
  return std::move(value.get_object());
}

class Scanner {
 public:
  Scanner(std::span<const std::string> tokens, Audience command, Problems& problems) : tokens_(tokens), command_(command), problems_(problems) {}

  Options scan() {
    while (at_ < tokens_.size()) {
      const std::string& token = tokens_[at_++];
      if (token == "--") {
        while (at_ < tokens_.size()) positional(tokens_[at_++]);
      } else if (looks_like_flag(token)) {
        flag_token(token);
      } else {
        positional(token);
      }
    }
    return std::move(options_);
  }
  [[nodiscard]] bool saw_unknown() const { return saw_unknown_; }
  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  void positional(const std::string& token) {
    if (saw_unknown_after_ == at_ - 1) return;  // most likely the value of the unknown flag just reported
    if (!options_.model().empty())
      return problems_.add("", "unexpected argument " + quote_value(token) + ": MODEL is already " + quote_value(options_.model()));
    if (token.empty()) return problems_.add("", "MODEL is empty");
    options_.set_model(token);
  }
  void unknown(const std::string& spelling) {
    saw_unknown_ = true;
    saw_unknown_after_ = at_;
    std::vector<std::string_view> names = flag_spellings(command_);
    if (takes(command_, flag("compilation-config"))) names.push_back("-O");
    std::string normal = spelling;
    std::replace(normal.begin(), normal.end(), '_', '-');
    problems_.add(spelling, quote_value(spelling) + ": unknown flag" + did_you_mean(normal, names));
  }
  void flag_token(const std::string& token) {
    FlagToken parts = take_apart(token);
    const FlagMatch match = parts.spelling == "-O" ? FlagMatch{&flag("compilation-config"), false} : match_flag(parts.spelling);
    if (match.row == nullptr) return unknown(parts.spelling);
    const FlagRow& row = *match.row;
    std::string written = parts.spelling;
    std::replace(written.begin(), written.end(), '_', '-');
    if (!takes(command_, row)) {
      saw_unknown_after_ = at_;
      return problems_.add(written, written + ": belongs to `quire " + owner_of(row) + "`, not to this command");
    }
    if (!parts.path.empty() || token.find('.') == written.size()) return dotted(row, written, parts);
    if (row.kind == ValueKind::kBool) return boolean(row, written, match.negated, parts);
    std::vector<std::string> values;
    if (parts.value) {
      values.push_back(*parts.value);
    } else {
      while (at_ < tokens_.size() && !looks_like_flag(tokens_[at_]) && (takes_list(row.kind) || values.empty())) values.push_back(tokens_[at_++]);
    }
    if (values.empty()) return problems_.add(written, written + ": needs a value: " + allowed_text(row));
    if (row.name == "model") return named_model(written, values.front());
    if (row.name == "device" && command_ == Audience::kExplain) {  // names of device families, present or not
      device_ = values.front();
      return;
    }
    assign_flag(options_, {row, written}, std::move(values), problems_);
  }
  void named_model(const std::string& written, const std::string& value) {
    if (command_ != Audience::kBenchServe) options_.note(Adjustment::Severity::kWarning, written, "is an older form; give the model as the first argument");
    if (!options_.model().empty())
      return problems_.add(written, written + " " + quote_value(value) + ": MODEL is already " + quote_value(options_.model()));
    if (value.empty()) return problems_.add(written, written + ": is empty");
    options_.set_model(value);
  }
  void boolean(const FlagRow& row, const std::string& written, bool negated, const FlagToken& parts) {
    std::optional<bool> value = true;
    if (parts.value) value = parse_bool(*parts.value);
    if (!value)
      return problems_.add(written,
                           written + " " + quote_value(*parts.value) + ": takes no value; --no-" + std::string(row.name) + " switches it off");
    options_.assign({row, written}, {*value != negated ? "true" : "false"}, problems_);
  }
  void dotted(const FlagRow& row, const std::string& written, const FlagToken& parts) {
    std::optional<std::string> value = parts.value;
    if (!value && at_ < tokens_.size() && !looks_like_flag(tokens_[at_])) value = tokens_[at_++];
    const std::string full = written + "." + parts.path;
    if (row.kind != ValueKind::kJson)
      return problems_.add(written, quote_value(full) + ": " + written + " takes no keys; it is " + allowed_text(row));
    if (!value) return problems_.add(written, quote_value(full) + ": needs a value");
    auto fragment = dotted_object(parts.path, *value);
    if (!fragment) return problems_.add(written, quote_value(full) + ": must be keys joined by dots, at most " + std::to_string(kMaxDottedDepth));
    options_.assign_json({row, written}, std::move(*fragment), parts.path.ends_with('+') ? ListMerge::kAppend : ListMerge::kReplace);
  }

  std::span<const std::string> tokens_;
  Audience command_;
  Problems& problems_;
  Options options_;
  std::string device_;
  std::size_t at_ = 0;
  std::size_t saw_unknown_after_ = SIZE_MAX;  // position of the token after the last unknown flag
  bool saw_unknown_ = false;
};

RunRequest run_request(const Options& options) {
  RunRequest request;
  request.prompt = options.text("prompt");
  request.chat = options.boolean("chat");
  request.max_tokens = *options.integer("max-tokens");
  request.temperature = options.number("temperature");
  request.top_p = options.number("top-p");
  request.top_k = options.integer("top-k");
  if (options.given("seed")) request.seed = options.integer("seed");
  return request;
}

const char* usage(Audience command) {
  switch (command) {
    case Audience::kRun: return "run MODEL --prompt TEXT";
    case Audience::kChat: return "chat MODEL [flags], or quire chat --base-url URL";
    case Audience::kBenchLatency: return "bench latency MODEL [flags]";
    case Audience::kBenchThroughput: return "bench throughput MODEL [flags]";
    case Audience::kExplain: return "explain MODEL [flags]";
    case Audience::kPlan: return "plan MODEL [flags]";
    case Audience::kDoctor: return "doctor MODEL [flags]";
    case Audience::kEval: return "eval MODEL --text FILE [flags]";
    case Audience::kQuantize: return "quantize MODEL --format FORM --output DIR [flags]";
    case Audience::kExportTokenizer: return "export-tokenizer MODEL.gguf --output DIR [flags]";
    case Audience::kServe:
    case Audience::kQuantizeAndExport:
    case Audience::kBench:
    case Audience::kBenchAttention:
    case Audience::kBenchServe:
    case Audience::kRunAndChat:
    case Audience::kServeAndRun: break;
  }
  return "serve MODEL [flags]";
}

bool asks_for_help(std::span<const std::string> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& a) { return a == "--help" || a == "-h"; });
}

Result<Command> parse_engine_command(std::span<const std::string> arguments, Audience command) {
  const bool run = command == Audience::kRun;
  if (asks_for_help(arguments)) return Command{HelpCommand{command_help(command)}};
  Problems problems;
  Scanner scanner(arguments, command, problems);
  Options options = scanner.scan();
  if (const auto file = options.given_text("config")) read_config_file(*file, command, options, problems);
  if (command == Audience::kExplain)
    options.note_no_effect();
  else
    options.check_fates(problems);
  const bool remote = command == Audience::kChat && options.given("base-url");
  if (options.model().empty() && !remote && !scanner.saw_unknown()) {
    problems.add("MODEL", std::string("MODEL is missing: quire ") + usage(command));
  }
  if (run && !options.given("prompt") && !scanner.saw_unknown()) problems.add("--prompt", "--prompt is missing: quire run MODEL --prompt TEXT");
  if (command == Audience::kEval && options.text("text").empty() && !scanner.saw_unknown()) problems.add("--text", "--text is missing: quire eval MODEL --text FILE");
  if (!problems.empty()) return problems.to_error();
  if (command == Audience::kEval) {
    const std::string text = options.text("text");
    const auto windows = static_cast<std::int32_t>(options.integer("max-windows").value_or(0));
    const std::string plot = options.text("plot");
    return Command{EvalCommand{std::move(options), text, windows, plot}};
  }
  if (command == Audience::kExplain) return Command{ExplainCommand{std::move(options), scanner.device()}};
  if (command == Audience::kPlan) return Command{PlanCommand{std::move(options)}};
  if (command == Audience::kDoctor) return Command{DoctorCommand{std::move(options)}};
  if (command == Audience::kChat) return Command{ChatCommand{std::move(options)}};
  if (command == Audience::kBenchLatency) return Command{BenchLatencyCommand{std::move(options)}};
  if (command == Audience::kBenchThroughput) return Command{BenchThroughputCommand{std::move(options)}};
  if (!run) return Command{ServeCommand{std::move(options)}};
  RunRequest request = run_request(options);
  return Command{RunCommand{std::move(options), std::move(request)}};
}

Result<Command> parse_quantize(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) return Command{HelpCommand{command_help(Audience::kQuantize)}};
  Problems problems;
  Scanner scanner(arguments, Audience::kQuantize, problems);
  Options options = scanner.scan();
  options.check_fates(problems);
  if (!scanner.saw_unknown()) {
    const std::string how = std::string(" is missing: quire ") + usage(Audience::kQuantize);
    if (options.model().empty()) problems.add("MODEL", "MODEL" + how);
    if (!options.given("format")) problems.add("--format", "--format" + how + "; FORM is " + allowed_text(flag("format")));
    if (options.text("output").empty()) problems.add("--output", "--output" + how);
  }
  if (!problems.empty()) return problems.to_error();
  QuantizeCommand out{.options = {}, .format = options.text("format"), .output = options.text("output"), .kv = options.text("kv"), .calibration = options.text("calibration")};
  out.max_shard_bytes = static_cast<std::uint64_t>(options.integer("max-shard-size").value_or(0));
  out.overwrite = options.boolean("overwrite");
  out.options = std::move(options);
  return Command{std::move(out)};
}

Result<Command> parse_export_tokenizer(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) return Command{HelpCommand{command_help(Audience::kExportTokenizer)}};
  Problems problems;
  Scanner scanner(arguments, Audience::kExportTokenizer, problems);
  Options options = scanner.scan();
  if (!scanner.saw_unknown()) {
    const std::string how = std::string(" is missing: quire ") + usage(Audience::kExportTokenizer);
    if (options.model().empty()) problems.add("MODEL", "MODEL" + how);
    if (options.text("output").empty()) problems.add("--output", "--output" + how);
  }
  if (!problems.empty()) return problems.to_error();
  const std::string output = options.text("output");
  const bool overwrite = options.boolean("overwrite");
  return Command{ExportTokenizerCommand{std::move(options), output, overwrite}};
}

// A bench that runs no model.
Result<Command> parse_bench_attention(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) return Command{HelpCommand{command_help(Audience::kBenchAttention)}};
  Problems problems;
  Scanner scanner(arguments, Audience::kBenchAttention, problems);
  Options options = scanner.scan();
  options.check_fates(problems);
  if (!options.model().empty() && !scanner.saw_unknown())
    problems.add("", "unexpected argument " + quote_value(options.model()) + ": bench attention runs no model; --shapes names what to measure");
  if (!problems.empty()) return problems.to_error();
  return Command{BenchAttentionCommand{std::move(options)}};
}

// A bench of a server: --model names what it serves.
Result<Command> parse_bench_serve(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) return Command{HelpCommand{command_help(Audience::kBenchServe)}};
  Problems problems;
  Scanner scanner(arguments, Audience::kBenchServe, problems);
  Options options = scanner.scan();
  if (!options.given("base-url") && !scanner.saw_unknown()) problems.add("--base-url", "--base-url is missing: quire bench serve --base-url http://localhost:8000 [--model NAME]");
  if (!problems.empty()) return problems.to_error();
  return Command{BenchServeCommand{std::move(options)}};
}

Result<Command> parse_bench(std::span<const std::string> arguments) {
  static constexpr std::string_view kNow[] = {"attention", "serve", "latency", "throughput", "--help"};
  static constexpr std::string_view kLater[] = {"gemm"};
  const std::string word = arguments.empty() ? "" : arguments.front();
  const std::string there_are = "there are attention, serve, latency and throughput";
  if (word == "attention") return parse_bench_attention(arguments.subspan(1));
  if (word == "serve") return parse_bench_serve(arguments.subspan(1));
  if (word == "latency") return parse_engine_command(arguments.subspan(1), Audience::kBenchLatency);
  if (word == "throughput") return parse_engine_command(arguments.subspan(1), Audience::kBenchThroughput);
  if (word == "--help" || word == "-h") return Command{HelpCommand{command_help(Audience::kBench)}};
  if (word.empty()) return invalid("bench: what to measure is missing; " + there_are + ": quire bench attention [flags]", "bench");
  if (std::find(std::begin(kLater), std::end(kLater), word) != std::end(kLater))
    return Error{ErrorCode::kUnsupported, "quire bench " + word + ": not built yet; " + there_are, word};
  return invalid("bench " + quote_value(word) + ": " + there_are + did_you_mean(word, kNow), word);
}

Result<Command> no_such_command(const std::string& word) {
  static constexpr std::string_view kNow[] = {"serve", "run", "chat", "explain", "plan", "doctor", "eval", "quantize", "export-tokenizer", "bench", "--version", "--help"};
  return invalid(quote_value(word) + ": unknown command; there are serve, run, chat, explain, plan, doctor, eval, quantize, export-tokenizer, bench, --version and --help" + did_you_mean(word, kNow), word);
}

}  // namespace

Result<Command> parse_command_line(std::span<const std::string> arguments) {
  if (arguments.empty()) return Command{HelpCommand{program_help()}};
  if (arguments.size() > kMaxArguments) return invalid("more than " + std::to_string(kMaxArguments) + " arguments");
  const std::string& word = arguments.front();
  const auto rest = arguments.subspan(1);
  if (word == "serve") return parse_engine_command(rest, Audience::kServe);
  if (word == "run") return parse_engine_command(rest, Audience::kRun);
  if (word == "chat") return parse_engine_command(rest, Audience::kChat);
  if (word == "explain") return parse_engine_command(rest, Audience::kExplain);
  if (word == "plan") return parse_engine_command(rest, Audience::kPlan);
  if (word == "doctor") return parse_engine_command(rest, Audience::kDoctor);
  if (word == "eval") return parse_engine_command(rest, Audience::kEval);
  if (word == "quantize") return parse_quantize(rest);
  if (word == "export-tokenizer") return parse_export_tokenizer(rest);
  if (word == "bench") return parse_bench(rest);
  if (word == "--help" || word == "-h" || word == "help") return Command{HelpCommand{program_help()}};
  if (word == "--version" || word == "-V" || word == "version") {
    if (rest.empty()) return Command{VersionCommand{}};
    if (rest.size() == 1 && rest.front() == "--json") return Command{VersionCommand{.json = true}};
    return invalid(word + " " + quote_value(rest.front()) + ": takes only --json", word);
  }
  if (word == "flags-doc") {
    if (rest.size() > 1) return invalid("flags-doc " + quote_value(rest[1]) + ": takes one folder", word);
    return Command{FlagsDocCommand{rest.empty() ? "docs" : rest.front()}};
  }
  return no_such_command(word);
}

Result<Command> parse_command_line(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  return parse_command_line(arguments);
}

}  // namespace quire::config
