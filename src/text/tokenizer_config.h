// What tokenizer_config.json and special_tokens_map.json say, in the form the tokenizer library and templates need.
// Private to src/text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace quire::text {

struct TokenizerConfig {
  std::string config_json = "{}";     // tokenizer_config.json as it is
  std::string options_json;           // for quire_text_tokenizer_new
  std::string variables_json = "{}";  // {"bos_token": "...", ...} for templates
  std::optional<std::string> bos, eos;
  std::optional<std::string> chat_template;  // "chat_template": the string, or the entry named "default" of the list
  std::int64_t model_max_length = 0;
  std::string tokenizer_class;
};

// Both files are optional; one that is there but broken is an error.
[[nodiscard]] Result<TokenizerConfig> read_tokenizer_config(const std::string& model_dir);

}  // namespace quire::text
