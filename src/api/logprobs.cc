#include "api/logprobs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire::api {
namespace {

std::size_t shown_top(const TokenLogprobs& entry, std::int32_t top_k) { return std::min(entry.top.size(), static_cast<std::size_t>(std::max(top_k, 0))); }

// The chosen token's float: the one in the list of the most likely where it stands there, so that both are printed alike.
float chosen_logprob(const TokenLogprobs& entry) {
  for (const auto& [token, value] : entry.top)
    if (token == entry.token) return printed_logprob(value);
  return printed_logprob(entry.logprob);
}

// The chosen token first, then the top k. Tokens that decode to the same text share a key: the larger value stands, so that the
// maximum over the values is the maximum over the tokens.
void write_top(JsonOut& out, const TokenLogprobs& entry, std::int32_t top_k, const TokenText& text) {
  std::vector<std::pair<std::string, float>> rows;
  const auto add = [&rows](std::string key, float value) {
    for (auto& [have, best] : rows) {
      if (have != key) continue;
      best = std::max(best, value);
      return;
    }
    rows.emplace_back(std::move(key), value);
  };
  add(text(entry.token), chosen_logprob(entry));
  for (std::size_t i = 0; i < shown_top(entry, top_k); ++i) add(text(entry.top[i].first), printed_logprob(entry.top[i].second));
  out.begin_object();
  for (const auto& [key, value] : rows) out.field(key, value);
  out.end_object();
}

void write_chat_token(JsonOut& out, const std::string& token, float logprob) {
  out.field("token", token);
  out.field("logprob", logprob);
  out.key("bytes");
  out.begin_array();
  for (const char c : token) out.value(static_cast<int>(static_cast<unsigned char>(c)));
  out.end_array();
}

}  // namespace

std::string TokenText::operator()(TokenId token) const {
  if (spelling_ == TokenSpelling::kId) return "token_id:" + std::to_string(token);
  auto decoded = tokenizer_.decode(std::span(&token, 1), text::SpecialTokens::kKeep);
  // Ids that the model has and the tokenizer lacks (padded vocabularies) decode to nothing.
  return decoded.ok() ? std::move(decoded).value() : std::string();
}

float printed_logprob(float value) { return std::isfinite(value) && value > -9999.0f ? value : (value > 0 ? 0.0f : -9999.0f); }

std::int64_t num_characters(std::string_view utf8) {
  return std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

void write_completion_logprobs(JsonOut& out, std::span<const ScoredToken> tokens, std::int32_t top_k, const TokenText& text, std::int64_t& offset) {
  std::vector<std::string> words;
  words.reserve(tokens.size());
  for (const ScoredToken& t : tokens) words.push_back(text(t.token));
  out.begin_object();
  out.key("text_offset");
  out.begin_array();
  for (const std::string& word : words) {
    out.value(offset);
    offset += num_characters(word);
  }
  out.end_array();
  out.key("token_logprobs");
  out.begin_array();
  for (const ScoredToken& t : tokens) {
    if (t.logprobs == nullptr) out.null();
    else out.value(chosen_logprob(*t.logprobs));
  }
  out.end_array();
  out.key("tokens");
  out.begin_array();
  for (const std::string& word : words) out.value(word);
  out.end_array();
  out.key("top_logprobs");
  out.begin_array();
  for (const ScoredToken& t : tokens) {
    if (t.logprobs == nullptr) out.null();
    else write_top(out, *t.logprobs, top_k, text);
  }
  out.end_array();
  out.end_object();
}

void write_chat_logprobs(JsonOut& out, std::span<const TokenLogprobs> tokens, std::int32_t top_k, const TokenText& text) {
  out.begin_object();
  out.key("content");
  out.begin_array();
  for (const TokenLogprobs& entry : tokens) {
    out.begin_object();
    write_chat_token(out, text(entry.token), chosen_logprob(entry));
    out.key("top_logprobs");
    out.begin_array();
    for (std::size_t i = 0; i < shown_top(entry, top_k); ++i) {
      out.begin_object();
      write_chat_token(out, text(entry.top[i].first), printed_logprob(entry.top[i].second));
      out.end_object();
    }
    out.end_array();
    out.end_object();
  }
  out.end_array();
  out.end_object();
}

void write_prompt_logprobs(JsonOut& out, std::span<const TokenLogprobs> entries, std::int32_t top_k, const TokenText& text) {
  const auto write = [&](TokenId token, float value, std::int64_t rank) {
    out.key(std::to_string(token));
    out.begin_object();
    out.field("logprob", value);
    out.field("rank", rank);
    out.field("decoded_token", text(token));
    out.end_object();
  };
  out.begin_array();
  out.null();
  for (const TokenLogprobs& entry : entries) {
    out.begin_object();
    write(entry.token, chosen_logprob(entry), entry.rank);
    for (std::size_t i = 0; i < shown_top(entry, top_k); ++i)
      if (entry.top[i].first != entry.token) write(entry.top[i].first, printed_logprob(entry.top[i].second), static_cast<std::int64_t>(i) + 1);
    out.end_object();
  }
  out.end_array();
}

}  // namespace quire::api
