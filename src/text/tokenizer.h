// Text to token ids and back, exactly as Hugging Face's `tokenizers` does it (the Rust crate behind text/ffi is that library).
// Immutable after load; every method may be called from any thread at the same time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::text {

// What the text of a special token ("<|im_end|>") inside the input becomes.
enum class SpecialText {
  kToken,     // the control token, as Hugging Face does by default
  kOrdinary,  // ordinary text: never a control token
};

// Whether the post-processor runs on encoded text (BOS and the like).
enum class AddSpecialTokens : unsigned char { kNo, kYes };
// What becomes of special tokens in decoded text.
enum class SpecialTokens : unsigned char { kKeep, kSkip };

struct TokenizerFacts {
  std::int32_t vocab_size = 0;  // largest id + 1, added tokens included
  std::optional<TokenId> bos, eos;
  std::int64_t model_max_length = 0;  // 0: not stated (or the "very large integer" of tokenizer_config.json)
  std::string tokenizer_class;
  std::size_t max_token_bytes = 0;  // of the longest string in the vocabulary: no token's own text is longer
};

// facts().model_max_length without loading the vocabulary: reads tokenizer_config.json alone.
[[nodiscard]] Result<std::int64_t> read_model_max_length(const std::string& model_dir);

class Tokenizer {
 public:
  // Reads tokenizer.json, tokenizer_config.json, special_tokens_map.json (last two optional) of a model folder, or a GGUF file (gguf_tokenizer.h).
  // Refuses by name what the library cannot load. Never throws, never panics across the border.
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> load(const std::string& model_dir);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // `text` must be valid UTF-8 (else an error).
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, AddSpecialTokens add, SpecialText special = SpecialText::kToken) const;
  // Hugging Face's decode(); incomplete UTF-8 becomes U+FFFD. Ids that the vocabulary lacks have no text (models pad it); negative ones are errors.
  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> ids, SpecialTokens special) const;
  // The vocabulary's own string of a token ("Ġthe"), nullopt when the id is unknown.
  [[nodiscard]] std::optional<std::string> token_string(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view token) const;
  [[nodiscard]] bool is_special(TokenId id) const;
  // The text of every special (control) token, longest first.
  [[nodiscard]] const std::vector<std::string>& special_texts() const;
  [[nodiscard]] const TokenizerFacts& facts() const;
  // tokenizer_config.json as JSON text ("{}" when absent), for /tokenizer_info.
  [[nodiscard]] const std::string& config_json() const;

 private:
  friend class ChatTemplate;
  friend class Grammars;
  friend class IncrementalDetokenizer;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns one request's token stream into text pieces. A piece never ends inside a UTF-8 character that later tokens may
// complete, the prompt's text is never repeated, and finish() gives whatever is still held back, so that the pieces
// joined equal decode(prompt + output) minus decode(prompt) wherever that difference is defined.
class IncrementalDetokenizer {
 public:
  // `prompt` is only used for its tail (leading-space and half-character context).
  IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, std::span<const TokenId> prompt, SpecialTokens special);
  [[nodiscard]] std::string push(TokenId token);
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string advance(bool is_final);
  [[nodiscard]] std::string leave_byte_run(std::size_t run_len);
  void forget_old_tokens(std::string& piece, const std::string& text);
  [[nodiscard]] std::size_t trailing_byte_tokens(std::span<const TokenId> ids) const;
  [[nodiscard]] std::string text_of(std::span<const TokenId> ids) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  SpecialTokens special_;
  std::vector<TokenId> window_;  // a bounded tail of prompt, then output
  std::string shown_;            // how much of the window's text the caller has: given out, or the prompt's own
};

}  // namespace quire::text
