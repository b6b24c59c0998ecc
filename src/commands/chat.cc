#include "commands/chat.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "commands/answerer.h"
#include "commands/console.h"
#include "commands/conversation.h"
#include "commands/startup.h"
#include "commands/terminal_input.h"
#include "config/environment.h"
#include "config/problems.h"
#include "http/target.h"

namespace quire::commands {
namespace {

constexpr std::string_view kCommand = "chat";
constexpr const char* kLogLevel = "warning";  // unless the environment says otherwise: lines about steps have no place in a conversation

// Words beside the answers: they never mix with what a program reads from standard output.
void say(std::string_view text) { std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data()); }

// A model can write what a terminal takes for orders.
std::string without_controls(const std::string& piece) {
  std::string out = piece;
  for (char& c : out)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) c = '?';
  return out;
}

Status save_new(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return Error{ErrorCode::kIo, "/save " + config::quote_value(path) + ": " + (errno == EEXIST ? "the file exists; choose another name" : std::strerror(errno)), {}};
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool closed = ::close(fd) == 0;
  return rest.empty() && closed ? Status() : Status(Error{ErrorCode::kIo, "/save " + config::quote_value(path) + ": could not be written whole", {}});
}

class Chat {
 public:
  Chat(Answerer& answerer, ChatSampling sampling, bool json) : answerer_(answerer), sampling_(std::move(sampling)), json_(json), terminal_(::isatty(STDIN_FILENO) == 1) {
    if (terminal_) interrupts_.emplace();
    input_.emplace(terminal_ ? &*interrupts_ : nullptr);
  }

  int run() {
    if (terminal_) say(answerer_.model() + ": /help lists the commands, Ctrl-D leaves");
    while (!leave_) {
      const auto typed = read_turn();
      if (!typed.ok()) return report_error(kCommand, typed.error());
      if (!typed.value().has_value()) break;
      const auto order = read_order(*typed.value());
      const Status done = order.ok() ? obey(order.value()) : Status(order.error());
      if (!done.ok()) fail(done.error());
    }
    const int code = terminal_ || errors_.empty() ? 0 : kFailureExitCode;
    return json_ ? print_answer(kCommand, document() + "\n", code) : code;
  }

 private:
  // One turn, lines joined; nullopt: the end. Two Ctrl-C with nothing typed between them are an end too.
  Result<std::optional<std::string>> read_turn() {
    std::string text;
    for (bool more = false, warned = false;;) {
      if (terminal_) std::fputs(more ? "... " : "> ", stderr);
      auto read = input_->next();
      if (!read.ok()) return read.error();
      if (read->what == LineInput::What::kEnd) {
        if (terminal_) say("");
        return more ? std::optional(text) : std::nullopt;
      }
      if (read->what == LineInput::What::kInterrupt) {
        say("");
        if (std::exchange(warned, true) && !more) return std::optional<std::string>();
        say("(Ctrl-C again, or Ctrl-D, leaves)");
        text.clear();
        more = false;
        continue;
      }
      warned = false;
      more = read->line.ends_with('\\');
      if (more) read->line.pop_back();
      text += read->line + (more ? "\n" : "");
      if (!more && text.find_first_not_of(" \t\r\n") != std::string::npos) return std::optional(text);
      if (!more) text.clear();
    }
  }

  Status obey(const ChatOrder& order) {
    switch (order.what) {
      case ChatOrder::What::kSay: return ask(order.argument);
      case ChatOrder::What::kHelp: say(chat_order_help()); return {};
      case ChatOrder::What::kClear: conversation_.clear(); return {};
      case ChatOrder::What::kSystem: conversation_.set_system(order.argument); return {};
      case ChatOrder::What::kSet: return set(order.argument);
      case ChatOrder::What::kUndo: return conversation_.take_back().has_value() ? Status() : Status(invalid("/undo: nothing was asked yet"));
      case ChatOrder::What::kRetry: return retry();
      case ChatOrder::What::kSave: return save_new(order.argument, document() + "\n");
      case ChatOrder::What::kQuit: leave_ = true; return {};
    }
    return {};
  }
  Status set(const std::string& argument) {
    if (argument.empty()) {
      say("sampling: " + sampling_.text());
      return {};
    }
    const std::size_t space = argument.find_first_of(" \t");
    if (space == std::string::npos) return invalid("/set " + config::quote_value(argument) + ": the value is missing: /set temperature 0.7, or /set temperature default");
    return sampling_.set(argument.substr(0, space), argument.substr(argument.find_first_not_of(" \t", space)));
  }
  Status retry() {
    const auto question = conversation_.take_back();
    return question.has_value() ? ask(*question) : Status(invalid("/retry: nothing was asked yet"));
  }

  // A question that fails is forgotten, so that the conversation can go on.
  Status ask(const std::string& question) {
    conversation_.ask(question);
    boost::json::object request = sampling_.fields();
    request["messages"] = conversation_.messages();
    Following how{.show = [this](const std::string& piece) { return show(piece); }};
    if (interrupts_.has_value()) how.stopped = [this] { return interrupts_->take(); };
    auto answer = answerer_.answer(request, how);
    if (!json_ && answer.ok()) QUIRE_RETURN_IF_ERROR(end_line());
    if (json_ && terminal_) say("");
    if (!answer.ok()) {
      (void)conversation_.take_back();
      return answer.error();
    }
    if (terminal_ && answer->finish_reason != "stop") say("(" + answer->finish_reason + ")");
    conversation_.answer(std::move(answer).value());
    return {};
  }
  Result<Reader> show(const std::string& piece) {
    if (json_ && !terminal_) return Reader::kThere;
    if (json_) {
      std::fputs(without_controls(piece).c_str(), stderr);
      return Reader::kThere;
    }
    auto reader = write_output(output_is_terminal() ? without_controls(piece) : piece);
    if (reader.ok() && reader.value() == Reader::kGone) leave_ = true;
    return reader;
  }
  Status end_line() {
    if (leave_) return {};
    const auto written = write_output("\n");
    if (!written.ok()) return written.error();
    leave_ = written.value() == Reader::kGone;
    return {};
  }
  void fail(const Error& error) {
    (void)report_error(kCommand, error);
    errors_.push_back(error.to_string());
  }
  [[nodiscard]] std::string document() const { return boost::json::serialize(conversation_.document(answerer_.model(), errors_)); }

  Answerer& answerer_;
  ChatSampling sampling_;
  bool json_, terminal_;
  std::optional<Interrupts> interrupts_;
  std::optional<LineInput> input_;
  Conversation conversation_;
  std::vector<std::string> errors_;
  bool leave_ = false;
};

// Flags that say how a model runs say nothing to a server that runs already.
Status check_remote_flags(const config::Options& options) {
  for (const config::FlagRow* row : config::flag_table()) {
    if (!options.given(row->name)) continue;
    static constexpr std::string_view kTaken[] = {"base-url", "seed", "json"};
    const bool taken = row->audience == config::Audience::kRunAndChat || std::find(std::begin(kTaken), std::end(kTaken), row->name) != std::end(kTaken);
    if (!taken) return invalid(options.spelling(row->name) + ": --base-url talks with a server that runs already; give it to that server", options.spelling(row->name));
  }
  return {};
}

int chat_with_server(const config::Options& options, const config::Environment& environment) {
  if (const Status flags = check_remote_flags(options); !flags.ok()) return report_error(kCommand, flags.error());
  const auto target = http::parse_base_url(options.text("base-url"), "--base-url");
  if (!target.ok()) return report_error(kCommand, target.error());
  auto answerer = make_remote_answerer(target.value(), environment.openai_api_key, options.model());
  if (!answerer.ok()) return report_error(kCommand, answerer.error());
  return Chat(*answerer.value(), ChatSampling(options), options.boolean("json")).run();
}

int chat_with_model(const config::Options& options) {
  StartupTimeline timeline;
  auto prepared = prepare(options, timeline, kLogLevel);
  if (!prepared.ok()) return report_error(kCommand, prepared.error());
  const Prepared& p = prepared.value();
  if (options.boolean("print-config")) return print_config(kCommand, options, p.config);
  if (p.chat_template == nullptr) return report_error(kCommand, invalid("this model has no chat template; give one with --chat-template, or use quire run", "--chat-template"));
  log_banner(p, BannerInputs::Server::kNone);
  if (::isatty(STDIN_FILENO) == 1) say("loading " + p.config.api.served_names.front() + " ...");
  engine::HealthMonitor health;
  auto loaded = LoadedModel::load(p, std::make_shared<engine::Metrics>(metrics_config(p.config)), health, timeline);
  if (!loaded.ok()) return report_error(kCommand, loaded.error());
  QUIRE_LOG_INFO("start-up: {}", timeline.text());
  const auto answerer = make_local_answerer(p, *loaded.value());
  return Chat(*answerer, ChatSampling(options), options.boolean("json")).run();
}

}  // namespace

int chat(const config::ChatCommand& command) {
  const auto environment = config::read_environment(config::process_variables());
  if (!environment.ok()) return report_error(kCommand, environment.error());
  if (const Status logging = init_logging(environment->log_level.value_or(kLogLevel)); !logging.ok()) return report_error(kCommand, logging.error());
  return command.options.given("base-url") ? chat_with_server(command.options, environment.value()) : chat_with_model(command.options);
}

}  // namespace quire::commands
