// What `quire chat` remembers and the commands that change it. Pure: knows no terminal, no model and no server.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "commands/openai_stream.h"
#include "config/options.h"

namespace quire::commands {

struct ChatAnswer {
  std::string text;
  std::string finish_reason;  // as the API has it ("stop", "length"), or "stopped": by the user
  TokenUsage usage;
};

// How answers are sampled: what was given, and nothing else.
class ChatSampling {
 public:
  ChatSampling() = default;
  explicit ChatSampling(const config::Options& options);  // the flags of the same names
  // `name` is temperature, top_p, top_k, max_tokens or seed (dashes or underscores), `value` what the flag takes, or "default". Errors
  // name both and what is allowed.
  [[nodiscard]] Status set(std::string_view name, std::string_view value);
  [[nodiscard]] const boost::json::object& fields() const { return fields_; }  // of a request
  [[nodiscard]] std::string text() const;                                     // "temperature 0.5, top_k 10"; "the model's own"

 private:
  boost::json::object fields_;
};

class Conversation {
 public:
  struct Exchange {
    std::string question;
    std::optional<ChatAnswer> answer;
  };

  void ask(std::string text) { exchanges_.push_back({std::move(text), std::nullopt}); }
  void answer(ChatAnswer answer);
  // The last question, with or without an answer, is forgotten and returned; nullopt: there is none.
  std::optional<std::string> take_back();
  void clear() { exchanges_.clear(); }                             // the system message stays
  void set_system(std::string text) { system_ = std::move(text); }  // "": none

  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  [[nodiscard]] boost::json::array messages() const;  // as a request has them
  // {"model", "messages", "turns": [{"finish_reason", "usage"}], "errors"}
  [[nodiscard]] boost::json::object document(const std::string& model, const std::vector<std::string>& errors) const;

 private:
  std::string system_;
  std::vector<Exchange> exchanges_;
};

struct ChatOrder {
  enum class What : std::uint8_t { kSay, kHelp, kClear, kSystem, kSet, kUndo, kRetry, kSave, kQuit } what = What::kSay;
  std::string argument;  // kSay: the text
};
// A turn as typed: text, or a command when it begins with '/' ("//" begins a text with one slash). Errors: no such command, an argument
// that is missing or too much.
[[nodiscard]] Result<ChatOrder> read_order(const std::string& typed);
[[nodiscard]] std::string_view chat_order_help();

}  // namespace quire::commands
