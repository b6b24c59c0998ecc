// The tokenizer and chat template in a GGUF file's metadata, as the files that Hugging Face's library reads.
#pragma once
#include <string>

#include "base/result.h"
#include "gguf/file.h"

namespace quire::text {

// The text of a tokenizer.json. Known tokenizer models: "gpt2" (byte-level BPE; its pre-tokenizer kind must be a known one) and "llama"
// (SentencePiece BPE: merges follow from the scores, unknown characters become byte tokens). kUnsupported: another model, an unknown
// pre-tokenizer kind (both with the list), a tokenizer key on no list. kCorrupt: missing or contradicting fields, a token twice, text that is not UTF-8.
[[nodiscard]] Result<std::string> gguf_tokenizer_json(const gguf::File& file);

// The text of a tokenizer_config.json: named tokens, chat template. Where `file` has no tokenizer at all: kNotFound.
[[nodiscard]] Result<std::string> gguf_tokenizer_config_json(const gguf::File& file);

}  // namespace quire::text
