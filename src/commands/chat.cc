#include "commands/chat.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/output_file.h"
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

Status save_new(const std::string& path, const std::string& text) {
  const Status done = write_new_file(path, text);
  return done.ok() ? Status() : Status(Error{done.error().code, "/save: " + done.error().message, {}});
}

enum class AnswerForm : std::uint8_t { kText, kJson };
AnswerForm answer_form(const config::Options& options) { return options.boolean("json") ? AnswerForm::kJson : AnswerForm::kText; }

class Chat {
 public:
  Chat(Answerer& answerer, ChatSampling sampling, AnswerForm form) : answerer_(answerer), sampling_(std::move(sampling)), json_(form == AnswerForm::kJson), terminal_(::isatty(STDIN_FILENO) == 1) {}

  int run() {
    if (terminal_) {
      auto caught = Interrupts::open();
      if (!caught.ok()) return report_error(kCommand, caught.error());
      interrupts_ = std::move(caught).value();
    }
    input_.emplace(interrupts_.get());
    if (terminal_) say(loggable(answerer_.model()) + ": /help lists the commands, Ctrl-D leaves");
    while (!leave_) {
      const auto typed = read_turn();
      if (!typed.ok()) {  // what came before it is still an answer
        fail(typed.error());
        unreadable_ = true;
        break;
      }
      if (!typed.value().has_value()) break;
      const auto order = read_order(*typed.value());
      const Status done = order.ok() ? obey(order.value()) : Status(order.error());
      if (!done.ok()) fail(done.error());
    }
    const int code = unreadable_ || (!terminal_ && !errors_.empty()) ? kFailureExitCode : 0;
    return json_ ? print_answer(kCommand, document() + "\n", code) : code;
  }

 private:
  // One turn, lines joined; nullopt: the end. Two Ctrl-C with nothing typed between them are an end too.
  Result<std::optional<std::string>> read_turn() {
    std::string text;
    for (bool more = false, warned = false;;) {
      if (terminal_) say_part(more ? "... " : "> ");
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
    if (interrupts_ != nullptr) how.stopped = [this] { return interrupts_->take(); };
    auto answer = answerer_.answer(request, how);
    if (!json_ && answer.ok()) QUIRE_RETURN_IF_ERROR(end_line());
    if (json_ && terminal_) say("");
    if (!answer.ok()) {
      (void)conversation_.take_back();
      return answer.error();
    }
    if (terminal_ && answer->finish_reason != "stop") say("(" + loggable(answer->finish_reason) + ")");
    conversation_.answer(std::move(answer).value());
    return {};
  }
  Result<Reader> show(const std::string& piece) {
    if (json_ && !terminal_) return Reader::kThere;
    if (json_) {
      say_part(piece);
      return Reader::kThere;
    }
    auto reader = write_output(piece);
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
  std::unique_ptr<Interrupts> interrupts_;  // at a terminal
  std::optional<LineInput> input_;
  Conversation conversation_;
  std::vector<std::string> errors_;
  bool leave_ = false;
  bool unreadable_ = false;  // standard input, from here on
};

// Flags that say how a model runs say nothing to a server that runs already.
Status check_remote_flags(const config::Options& options) {
  for (const config::FlagRow* row : config::flag_table()) {
    if (!options.given(row->name)) continue;
    static constexpr std::string_view kTaken[] = {"base-url", "read-timeout", "seed", "json"};
    const bool taken = row->audience == config::Audience::kRunAndChat || std::find(std::begin(kTaken), std::end(kTaken), row->name) != std::end(kTaken);
    if (!taken) return invalid(options.spelling(row->name) + ": --base-url talks with a server that runs already; give it to that server", options.spelling(row->name));
  }
  return {};
}

int chat_with_server(const config::Options& options, const config::Environment& environment) {
  if (const Status flags = check_remote_flags(options); !flags.ok()) return report_error(kCommand, flags.error());
  const auto target = http::parse_base_url(options.text("base-url"), "--base-url");
  if (!target.ok()) return report_error(kCommand, target.error());
  auto answerer = make_remote_answerer(target.value(), environment.openai_api_key, options.model(), client_limits(options));
  if (!answerer.ok()) return report_error(kCommand, answerer.error());
  return Chat(*answerer.value(), ChatSampling(options), answer_form(options)).run();
}

int chat_with_model(const config::Options& options) {
  if (options.given("read-timeout")) return report_error(kCommand, invalid(options.spelling("read-timeout") + ": there is no server to wait for; it goes with --base-url", options.spelling("read-timeout")));
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
  return Chat(*answerer, ChatSampling(options), answer_form(options)).run();
}

}  // namespace

int chat(const config::ChatCommand& command) {
  const auto environment = config::read_environment(config::process_variables());
  if (!environment.ok()) return report_error(kCommand, environment.error());
  if (const Status logging = init_logging(environment->log_level.value_or(kLogLevel)); !logging.ok()) return report_error(kCommand, logging.error());
  return command.options.given("base-url") ? chat_with_server(command.options, environment.value()) : chat_with_model(command.options);
}

}  // namespace quire::commands
