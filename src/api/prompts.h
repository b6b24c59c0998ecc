// The prompt of a request in any of its four forms, and chat messages, as token ids with the text they stand for. Pure; slow
// for long input: runs on the tokenising pool.
#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/model.h"
#include "base/ids.h"
#include "base/result.h"
#include "config/resolved.h"

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

// /v1/completions: str | [str] | [int] | [[int]]. `request` has passed check_fields.
[[nodiscard]] Result<std::vector<Prompt>> read_prompts(const boost::json::object& request, const Model& model, const SequenceLimit& limit, PromptText keep);

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string role;        // of the answer
  std::string last_content;  // of the last message, when that has the answer's role (for echo)
};

// /v1/chat/completions and the chat form of /tokenize.
[[nodiscard]] Result<ChatPrompt> read_messages(const boost::json::object& request, const Model& model, const config::ApiSettings& settings);

// Applies truncate_prompt_tokens: keeps the last tokens.
[[nodiscard]] Status truncate_prompt(const boost::json::object& request, const Model& model, std::vector<TokenId>& tokens);

// Encodes text, refusing what cannot fit the context whatever its tokens are, before the tokenizer sees it.
[[nodiscard]] Result<std::vector<TokenId>> encode_bounded(const std::string& text, bool add_special_tokens, const Model& model);

}  // namespace quire::api
