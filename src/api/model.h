// What the routes need of a loaded model. Made once by the program's wiring and shared, immutable, with every request.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"

namespace quire::text {
class Tokenizer;
class ChatTemplate;
}  // namespace quire::text
namespace quire::engine {
class Engine;
}

namespace quire::api {

struct Model {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null: the model has none
  std::shared_ptr<engine::Engine> engine;
  std::int32_t vocab_size = 0;       // of the model: every id the engine sees is below it
  std::int32_t max_model_len = 0;    // prompt + output, tokens
  std::int32_t max_logprobs = 20;    // -1: the whole vocabulary
  std::vector<TokenId> eos_token_ids;  // config.json's; like the tokenizer's and generation_config's, below vocab_size
  bool priority_scheduling = false;  // false: a priority other than 0 is refused
  std::string root;                  // the model argument, for /v1/models
  std::vector<std::string> relaxed;  // --relaxed items as given, shown in /v1/models
  std::vector<std::string> warnings;  // why answers may be worse than the checkpoint promises, shown there too
  std::string serving_json = "{}";    // what runs, for /quire/serving
  std::string kv_scales_json = "{}";  // the scale ledger, for /quire/scales
};

}  // namespace quire::api
