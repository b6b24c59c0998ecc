// The tokenizer fields of a GGUF file, typed and checked against each other. Private to src/text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/file.h"

namespace quire::text {

// Values of tokenizer.ggml.token_type.
enum class GgufTokenType : std::uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

enum class GgufTokenizerModel : std::uint8_t { kGpt2, kLlama };

// Lists are views into the file's metadata and as long as `tokens`; ids are indices of it.
struct GgufVocabulary {
  GgufTokenizerModel model = GgufTokenizerModel::kGpt2;
  std::string_view pre;                           // of kGpt2
  const gguf::Strings* tokens = nullptr;
  const gguf::Integers* types = nullptr;          // GgufTokenType, and 0 for unused; nullptr: all are normal. type() reads it
  const gguf::Reals* scores = nullptr;            // of kLlama
  const gguf::Strings* merges = nullptr;          // of kGpt2: "left right", most important first
  std::optional<std::int64_t> bos, eos, unknown, padding;
  std::optional<bool> add_bos, add_eos;           // absent: the kind decides
  bool add_space_prefix = true;                   // of kLlama

  [[nodiscard]] std::string_view token(std::int64_t id) const { return (*tokens)[static_cast<std::size_t>(id)]; }
  // Tokens that end answers are control tokens, whatever the file says (gguf/end_tokens.h).
  [[nodiscard]] GgufTokenType type(std::int64_t id) const;
};

[[nodiscard]] bool is_utf8(std::string_view text);

// `file` outlives the result. Errors as in gguf_tokenizer.h.
[[nodiscard]] Result<GgufVocabulary> read_gguf_vocabulary(const gguf::File& file);

}  // namespace quire::text
