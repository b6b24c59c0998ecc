// What a Tokenizer holds; shared by the files of src/text only.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/ffi_handles.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace quire::text {

struct Tokenizer::Impl {
  TokenizerHandle handle;
  TokenizerConfig config;
  TokenizerFacts facts;
  std::unordered_set<TokenId> special_ids;
  std::vector<std::string> special_texts;  // longest first
  // Of a tokenizer that writes unknown characters as tokens "<0x..>", one per byte: those tokens. Empty for others.
  std::unordered_map<TokenId, std::uint8_t> byte_tokens;
  // A token that decodes to one letter wherever it stands: a left neighbour that never changes what follows it.
  std::optional<TokenId> neutral;

  // Fills facts, special_* and byte_tokens from the handle.
  [[nodiscard]] Status read_facts();
};

}  // namespace quire::text
