// Log-probabilities on the wire, in the completions and the chat form. A value is written from one float with one spelling, so
// that "is the chosen token the most likely one" can be answered exactly by comparing what is printed.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/json_out.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace quire::api {

// How a token is written: decoded alone (incomplete UTF-8 shows U+FFFD), or "token_id:N".
enum class TokenSpelling : unsigned char { kText, kId };

class TokenText {
 public:
  TokenText(const text::Tokenizer& tokenizer, TokenSpelling spelling) : tokenizer_(tokenizer), spelling_(spelling) {}
  [[nodiscard]] std::string operator()(TokenId token) const;

 private:
  const text::Tokenizer& tokenizer_;
  TokenSpelling spelling_;
};

// The value that is printed: at least -9999, also for minus infinity and NaN, which JSON has no word for.
[[nodiscard]] float printed_logprob(float value);
// Unicode characters in valid UTF-8.
[[nodiscard]] std::int64_t num_characters(std::string_view utf8);

// One token of the completions form; no logprobs: the first prompt token, which nothing precedes.
struct ScoredToken {
  TokenId token = 0;
  const TokenLogprobs* logprobs = nullptr;
};

// {"text_offset","token_logprobs","tokens","top_logprobs"}; `offset` is in characters and moves on.
void write_completion_logprobs(JsonOut& out, std::span<const ScoredToken> tokens, std::int32_t top_k, const TokenText& text, std::int64_t& offset);
// {"content":[{"token","logprob","bytes","top_logprobs"}]}
void write_chat_logprobs(JsonOut& out, std::span<const TokenLogprobs> tokens, std::int32_t top_k, const TokenText& text);
// vLLM's prompt_logprobs: null, then {"<id>": {"logprob","rank","decoded_token"}} for each later prompt token.
void write_prompt_logprobs(JsonOut& out, std::span<const TokenLogprobs> entries, std::int32_t top_k, const TokenText& text);

}  // namespace quire::api
