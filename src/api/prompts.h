// The prompt of a request in any of its four forms, and chat messages, as token ids with the text they stand for. Pure; slow
// where text is read.
#pragma once
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/model.h"
#include "base/ids.h"
#include "base/result.h"
#include "config/resolved.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::api {

struct Prompt {
  std::vector<TokenId> tokens;
  std::string text;  // filled when asked for: the prompt as given, or decoded from ids
};

enum class PromptText : unsigned char { kDrop, kKeep };

// How many sequences one request may have: what the operator allows, and never more than the engine's queue could ever hold.
struct SequenceLimit {
  std::int64_t n = 1;            // samples per prompt
  std::int64_t max_prompts = 0;  // prompts times n
  std::int64_t max_queue = 0;
  [[nodiscard]] Status check(std::size_t num_prompts) const;
};

// The field truncate_prompt_tokens, checked: the last tokens stay.
struct Truncation {
  std::optional<std::size_t> keep;  // tokens; nullopt: all
  void apply(std::vector<TokenId>& tokens) const;
};
[[nodiscard]] Result<Truncation> read_truncation(const boost::json::object& request, const Model& model);

// What a request says of its prompts before any of them is read.
struct PromptRules {
  SequenceLimit limit;
  Truncation truncation;
  PromptText text = PromptText::kDrop;
};

// /v1/completions: str | [str] | [int] | [[int]], each text read when its caller has time for it.
class PromptReader {
 public:
  // Checks the form and the counts, and reads prompts of ids. `request` has passed check_fields; it and `model` outlive the reader.
  [[nodiscard]] static Result<PromptReader> open(const boost::json::object& request, const Model& model, const PromptRules& rules);
  [[nodiscard]] bool has_text() const { return prompts_.size() < num_prompts_; }
  [[nodiscard]] Status read_text();  // of the next prompt
  [[nodiscard]] std::vector<Prompt> take() { return std::move(prompts_); }

 private:
  PromptReader(const boost::json::object& request, const Model& model, const PromptRules& rules) : request_(&request), model_(&model), rules_(rules) {}
  [[nodiscard]] Status read_ids(const boost::json::array& list, std::optional<std::size_t> item);
  [[nodiscard]] Status add(Prompt prompt);

  const boost::json::object* request_;
  const Model* model_;
  PromptRules rules_;
  bool is_list_ = false;  // of prompts
  std::size_t num_prompts_ = 1;
  std::vector<Prompt> prompts_;  // read so far
};

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string role, last_content;  // as in ChatInput
};

// The messages and what goes with them, checked, before the template sees them.
struct ChatInput {
  text::ChatTemplateInput input;
  text::AddSpecialTokens add = text::AddSpecialTokens::kNo;
  std::string role;          // of the answer
  std::string last_content;  // of the last message, when that has the answer's role (for echo)
};

// /v1/chat/completions and the chat form of /tokenize. Everything that needs neither template nor tokenizer.
[[nodiscard]] Result<ChatInput> read_chat(const boost::json::object& request, const Model& model, const config::ApiSettings& settings);
// The rest, which is slow.
[[nodiscard]] Result<ChatPrompt> render_chat(const ChatInput& chat, const Model& model);

// All texts of one request are read by one thread after another and stay in memory meanwhile, so their size is bounded together.
[[nodiscard]] Status check_text_bytes(std::size_t text_bytes, const std::string& field);

// Encodes text, refusing what cannot fit the context whatever its tokens are, before the tokenizer sees it.
[[nodiscard]] Result<std::vector<TokenId>> encode_bounded(const std::string& text, text::AddSpecialTokens add, const Model& model);

}  // namespace quire::api
