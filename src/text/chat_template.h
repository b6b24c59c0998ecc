// A model's chat template (Jinja, through minijinja with Hugging Face's extensions), and control-token safety:
// text that a message brings can never become a control token (docs/CONTRACTS.md, "Text and strings from outside").
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace quire::text {

struct ChatTemplateInput {
  std::string messages_json;               // JSON array of message objects, as the client sent them (validated by api)
  std::string tools_json;                  // JSON array or empty
  std::string kwargs_json;                 // JSON object of chat_template_kwargs or empty
  std::string documents_json;              // JSON array or empty
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::optional<std::int64_t> now_unix;    // for strftime_now; nullopt: the current time
  bool allow_control_tokens_in_content = false;  // the operator's choice, never the request's
};

struct RenderedChat {
  std::string text;             // what Hugging Face's apply_chat_template(tokenize=False) gives
  std::vector<TokenId> tokens;  // encode(text) where no content holds a special token's text
};

class ChatTemplate {
 public:
  // From `override_text` when given (contents of --chat-template), else chat_template.jinja, else
  // tokenizer_config.json's "chat_template" (a string, or a list of named templates: "default" is taken).
  // ok with nullptr inside: the model has none. A template that does not compile is an error, never replaced.
  [[nodiscard]] static Result<std::shared_ptr<const ChatTemplate>> load(const std::string& model_dir, std::shared_ptr<const Tokenizer> tokenizer,
                                                                       const std::optional<std::string>& override_text);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // Errors (raise_exception included) are kInvalidArgument with the template's own words. Bounded: two million instructions; 1 MiB
  // of text and eight times what is given, at most 16 MiB; 32 MiB of memory and 64 times what is given.
  // `add`: as in /v1/chat/completions' add_special_tokens (default false there).
  [[nodiscard]] Result<RenderedChat> render(const ChatTemplateInput& input, AddSpecialTokens add) const;
  [[nodiscard]] const std::string& source() const;
  // True when the template walks over content given as a list of {"type": "text", "text": ...} parts; false when it wants
  // strings (the caller then joins the parts' texts first). Found out at load by rendering one such message.
  [[nodiscard]] bool accepts_content_parts() const;
  // True when the template looks up a variable of that name which it does not set itself.
  [[nodiscard]] bool reads(std::string_view variable) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::text
