// Text pieces of a growing token sequence. Each step decodes a bounded window, so that a stream costs linear time.
//
//   window_ = [ tokens whose text the caller has ........ | tokens with text still held back ]
//   text    = [ shown_ .................................. | held back                        ]
//
// What is held back. Byte-level tokenizers: the last U+FFFD, for it may be the beginning of a character; an earlier one is
// final, since decoding goes from left to right. Byte-fallback tokenizers (SentencePiece): every token of a run of byte
// tokens, for the library decodes a run as a whole and one bad byte turns all of its characters into U+FFFD.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "text/tokenizer_impl.h"

namespace quire::text {
namespace {

constexpr std::size_t kMaxWindow = 24;
// At least one byte per token, so that the damage of starting inside a character (3 bytes) and the held-back character
// (4 bytes) never meet.
constexpr std::size_t kKept = 8;
// Longer runs of byte tokens are cut at a character, so that long stretches of rare characters stream too.
constexpr std::size_t kMaxByteRun = 32;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// Length of the common beginning, not inside a character.
std::size_t common_prefix(std::string_view a, std::string_view b) {
  auto n = static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin()).first - a.begin());
  while (n > 0 && ((n < a.size() && is_continuation(a[n])) || (n < b.size() && is_continuation(b[n])))) --n;
  return n;
}

// How many of the last bytes begin a UTF-8 character that is not complete yet: 0 to 3.
std::size_t incomplete_tail(std::span<const std::uint8_t> bytes) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, bytes.size()); ++n) {
    const std::uint8_t byte = bytes[bytes.size() - n];
    if ((byte & 0xC0u) == 0x80u) continue;
    const std::size_t needs = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return byte <= 0xF4 && needs > n ? n : 0;
  }
  return 0;
}

}  // namespace

IncrementalDetokenizer::IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, std::span<const TokenId> prompt, SpecialTokens special)
    : tokenizer_(std::move(tokenizer)), special_(special) {
  const auto& impl = *tokenizer_->impl_;
  for (std::size_t n = prompt.size(); n > 0 && window_.size() < kMaxByteRun + kKept; --n) {
    const TokenId id = prompt[n - 1];
    if (id < 0 || id >= impl.facts.vocab_size || (special_ == SpecialTokens::kSkip && tokenizer_->is_special(id))) continue;
    window_.push_back(id);
  }
  std::reverse(window_.begin(), window_.end());
  const std::size_t run = trailing_byte_tokens(window_);
  std::size_t tail = 0;
  if (run > 0 && impl.neutral) {
    // Complete characters at the prompt's end leave the window: bytes to come must not change what they decode to.
    std::vector<std::uint8_t> bytes;
    for (const TokenId id : std::span(window_).last(run)) bytes.push_back(impl.byte_tokens.at(id));
    tail = incomplete_tail(bytes);
    std::vector<TokenId> kept{*impl.neutral};
    kept.insert(kept.end(), window_.end() - static_cast<std::ptrdiff_t>(tail), window_.end());
    window_ = std::move(kept);
  } else if (run == 0 && window_.size() > kKept) {
    window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(kKept));
  }
  shown_ = text_of(window_);
}

std::string IncrementalDetokenizer::push(TokenId token) {
  // Ids without a token (padding of the embedding table) have no text, as in the library; nor have skipped ones.
  if (token < 0 || token >= tokenizer_->impl_->facts.vocab_size) return {};
  if (special_ == SpecialTokens::kSkip && tokenizer_->is_special(token)) return {};
  window_.push_back(token);
  return advance(false);
}

std::string IncrementalDetokenizer::finish() { return advance(true); }

std::string IncrementalDetokenizer::advance(bool is_final) {
  if (!is_final) {
    if (const std::size_t run = trailing_byte_tokens(window_); run > 0) return run < kMaxByteRun ? std::string() : leave_byte_run(run);
  }
  const std::string text = text_of(window_);
  std::size_t stable = text.size();
  if (!is_final && tokenizer_->impl_->byte_tokens.empty() && text.ends_with(kReplacement)) stable -= kReplacement.size();
  const std::size_t begin = common_prefix(shown_, text);
  std::string piece = stable > begin ? text.substr(begin, stable - begin) : std::string();
  shown_ = text.substr(0, std::max(begin, stable));
  if (window_.size() > kMaxWindow) forget_old_tokens(piece, text);
  return piece;
}

void IncrementalDetokenizer::forget_old_tokens(std::string& piece, const std::string& text) {
  const std::string held = text.substr(shown_.size());
  window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(kKept));
  shown_ = text_of(window_);
  if (shown_.ends_with(held)) {
    shown_.resize(shown_.size() - held.size());
  } else {
    piece += held;  // a decoder that rewrites its end: better early than lost
  }
}

// A run of byte tokens has become too long to hold: gives out its complete characters and starts afresh behind them.
std::string IncrementalDetokenizer::leave_byte_run(std::size_t run_len) {
  const auto& impl = *tokenizer_->impl_;
  std::vector<std::uint8_t> bytes;
  for (const TokenId id : std::span(window_).last(run_len)) bytes.push_back(impl.byte_tokens.at(id));
  const std::size_t tail = incomplete_tail(bytes);
  const auto head = std::span<const TokenId>(window_).first(window_.size() - tail);
  const std::string text = text_of(head);
  std::string piece = text.substr(common_prefix(shown_, text));
  std::vector<TokenId> next;
  if (impl.neutral) {
    next.push_back(*impl.neutral);
  } else {
    const auto before = head.first(window_.size() - run_len);
    next.assign(before.end() - static_cast<std::ptrdiff_t>(std::min(before.size(), kKept)), before.end());
  }
  shown_ = text_of(next);
  next.insert(next.end(), window_.end() - static_cast<std::ptrdiff_t>(tail), window_.end());
  window_ = std::move(next);
  return piece;
}

std::size_t IncrementalDetokenizer::trailing_byte_tokens(std::span<const TokenId> ids) const {
  const auto& byte_tokens = tokenizer_->impl_->byte_tokens;
  std::size_t n = 0;
  while (n < ids.size() && byte_tokens.contains(ids[ids.size() - 1 - n])) ++n;
  return n;
}

std::string IncrementalDetokenizer::text_of(std::span<const TokenId> ids) const {
  auto text = tokenizer_->decode(ids, special_);
  // Ids were checked before they entered the window; what remains is a decoder from a broken file, which gives no text.
  return text.ok() ? std::move(text).value() : std::string();
}

}  // namespace quire::text
