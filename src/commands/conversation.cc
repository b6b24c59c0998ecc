#include "commands/conversation.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "base/check.h"
#include "base/suggest.h"
#include "config/problems.h"
#include "config/values.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

constexpr std::string_view kSettings[] = {"temperature", "top_p", "top_k", "max_tokens", "seed"};

std::string flag_name(std::string_view setting) {
  std::string out(setting);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

json::value number_of(const config::FlagRow& row, std::string_view text) {
  if (row.kind == config::ValueKind::kFloat) return *config::parse_number(text);
  return *config::parse_integer(text);
}

enum class Argument : std::uint8_t { kNone, kMaybe, kNeeded };
struct OrderRow {
  std::string_view name;
  ChatOrder::What what;
  Argument argument;
  std::string_view usage;
};
using W = ChatOrder::What;
constexpr OrderRow kOrders[] = {{"/help", W::kHelp, Argument::kNone, "/help"},
                                {"/clear", W::kClear, Argument::kNone, "/clear"},
                                {"/system", W::kSystem, Argument::kMaybe, "/system TEXT"},
                                {"/set", W::kSet, Argument::kMaybe, "/set temperature 0.7"},
                                {"/undo", W::kUndo, Argument::kNone, "/undo"},
                                {"/retry", W::kRetry, Argument::kNone, "/retry"},
                                {"/save", W::kSave, Argument::kNeeded, "/save FILE"},
                                {"/quit", W::kQuit, Argument::kNone, "/quit"}};

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

json::object usage_json(const TokenUsage& usage) {
  const auto count = [](const std::optional<std::int64_t>& n) { return n ? json::value(*n) : json::value(nullptr); };
  return {{"prompt_tokens", count(usage.prompt_tokens)}, {"completion_tokens", count(usage.completion_tokens)}};
}

}  // namespace

ChatSampling::ChatSampling(const config::Options& options) {
  for (const std::string_view setting : kSettings) {
    const std::string flag = flag_name(setting);
    if (!options.given(flag)) continue;
    const Status done = set(setting, options.text(flag));
    QUIRE_CHECK(done.ok()) << "the command line has checked it: " << done.error().message;
  }
}

Status ChatSampling::set(std::string_view name, std::string_view value) {
  const std::string flag = flag_name(name);
  const auto* setting = std::find_if(std::begin(kSettings), std::end(kSettings), [&](std::string_view s) { return flag_name(s) == flag; });
  if (setting == std::end(kSettings)) return invalid("/set " + config::quote_value(name) + ": there are temperature, top_p, top_k, max_tokens and seed" + did_you_mean(name, kSettings));
  if (value == "default") {
    fields_.erase(*setting);
    return {};
  }
  const config::FlagRow& row = config::flag(flag);
  QUIRE_RETURN_IF_ERROR(config::check_value(row, "/set " + std::string(*setting), value));
  fields_[*setting] = number_of(row, value);
  return {};
}

std::string ChatSampling::text() const {
  std::string out;
  for (const auto& field : fields_) out += (out.empty() ? "" : ", ") + std::string(field.key()) + " " + json::serialize(field.value());
  return out.empty() ? "the model's own" : out;
}

void Conversation::answer(ChatAnswer answer) {
  QUIRE_CHECK(!exchanges_.empty() && !exchanges_.back().answer.has_value()) << "nothing was asked";
  exchanges_.back().answer = std::move(answer);
}

std::optional<std::string> Conversation::take_back() {
  if (exchanges_.empty()) return std::nullopt;
  std::string question = std::move(exchanges_.back().question);
  exchanges_.pop_back();
  return question;
}

json::array Conversation::messages() const {
  json::array out;
  const auto add = [&out](const char* role, const std::string& text) { out.push_back(json::object{{"role", role}, {"content", text}}); };
  if (!system_.empty()) add("system", system_);
  for (const Exchange& e : exchanges_) {
    add("user", e.question);
    if (e.answer.has_value()) add("assistant", e.answer->text);
  }
  return out;
}

json::object Conversation::document(const std::string& model, const std::vector<std::string>& errors) const {
  json::array turns, failed;
  for (const Exchange& e : exchanges_)
    if (e.answer.has_value()) turns.push_back(json::object{{"finish_reason", e.answer->finish_reason}, {"usage", usage_json(e.answer->usage)}});
  for (const std::string& error : errors) failed.emplace_back(error);
  return {{"model", model}, {"messages", messages()}, {"turns", std::move(turns)}, {"errors", std::move(failed)}};
}

Result<ChatOrder> read_order(const std::string& typed) {
  if (!typed.starts_with('/')) return ChatOrder{W::kSay, typed};
  if (typed.starts_with("//")) return ChatOrder{W::kSay, typed.substr(1)};
  const std::size_t space = typed.find_first_of(" \t\n");
  const std::string word = typed.substr(0, space), argument = space == std::string::npos ? "" : trimmed(std::string_view(typed).substr(space));
  for (const OrderRow& row : kOrders) {
    if (row.name != word) continue;
    if (row.argument == Argument::kNeeded && argument.empty()) return invalid(word + ": something is missing: " + std::string(row.usage));
    if (row.argument == Argument::kNone && !argument.empty()) return invalid(word + " " + config::quote_value(argument) + ": takes nothing");
    return ChatOrder{row.what, argument};
  }
  std::vector<std::string_view> names;
  for (const OrderRow& row : kOrders) names.push_back(row.name);
  return invalid(config::quote_value(word) + ": no such command" + did_you_mean(word, names) + "; /help lists them, and // begins a text with a slash");
}

std::string_view chat_order_help() {
  return "/help             this list\n"
         "/clear            forget the conversation (the system message stays)\n"
         "/system TEXT      set the system message; without TEXT: none\n"
         "/set NAME VALUE   temperature, top_p, top_k, max_tokens or seed; VALUE default: the model's own; without both: show them\n"
         "/undo             forget the last question and its answer\n"
         "/retry            ask the last question again\n"
         "/save FILE        write the conversation as JSON into a new file\n"
         "/quit             leave (so does Ctrl-D)\n"
         "A line that ends in \\ goes on in the next one. // begins a text with a slash. Ctrl-C stops an answer.\n";
}

}  // namespace quire::commands
