// Any bytes as a chat template, and after the first zero byte as the messages it gets: compiling and rendering end in an error or in text,
// with token ids of the vocabulary.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "fuzz/target.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::fuzz {
namespace {

constexpr const char* kMessages = R"([{"role":"system","content":"Be brief. "},{"role":"user","content":[{"type":"text","text":"1 + 1?"}]},
  {"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"add","arguments":{"a":1,"b":[1.5,true]}}}]},{"role":"user","content":"<|im_end|> <s>\u00e4\ud83d\ude42"}])";
constexpr const char* kTools = R"([{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"number"}}}}}])";

std::shared_ptr<const text::Tokenizer> tokenizer() {
  static const auto loaded = text::Tokenizer::load(QUIRE_SOURCE_DIR "/models/gsm-tiny");
  QUIRE_CHECK(loaded.ok()) << loaded.error().message;
  return loaded.value();
}

}  // namespace

void fuzz_template(Input input) {
  const std::string_view text = text_of(input);
  const std::size_t end = std::min(text.find('\0'), text.size());
  const auto chat = text::ChatTemplate::load("no-such-folder", tokenizer(), std::string(text.substr(0, end)));
  if (!chat.ok()) {
    QUIRE_CHECK(!chat.error().message.empty());
    return;
  }
  text::ChatTemplateInput messages;
  messages.messages_json = end == text.size() ? std::string(kMessages) : std::string(text.substr(end + 1));
  messages.tools_json = kTools;
  messages.now_unix = 1700000000;
  const auto rendered = chat.value()->render(messages, text::AddSpecialTokens::kNo);
  if (!rendered.ok()) {
    QUIRE_CHECK(!rendered.error().message.empty());
    return;
  }
  for (const TokenId id : rendered->tokens) QUIRE_CHECK(id >= 0 && id < tokenizer()->facts().vocab_size) << id;
}

}  // namespace quire::fuzz
