// Any bytes as a tokenizer.json, and after the first zero byte (which no JSON holds) as a tokenizer_config.json: loading ends in an error, or
// texts can be encoded and decoded with what it gave.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "fuzz/target.h"
#include "kit/temp_dir.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::fuzz {
namespace {

// Words, digits, scripts, white space, a character of four bytes, and what tokenizers like to call special.
constexpr std::string_view kTexts[] = {"", "a", "Hello, world 123!", "  two\n\nlines\t", "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac\xf0\x9f\x99\x82", "<s><|im_end|></s>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"};

void use(const std::shared_ptr<const text::Tokenizer>& tokenizer) {
  const auto& facts = tokenizer->facts();
  for (const std::string_view text : kTexts) {
    for (const auto special : {text::SpecialText::kToken, text::SpecialText::kOrdinary}) {
      const auto ids = tokenizer->encode(text, text::AddSpecialTokens::kYes, special);
      if (!ids.ok()) continue;
      for (const TokenId id : ids.value()) QUIRE_CHECK(id >= 0 && id < facts.vocab_size) << id << " of " << facts.vocab_size;
      (void)tokenizer->decode(ids.value(), text::SpecialTokens::kSkip);
      text::IncrementalDetokenizer stream(tokenizer, {}, text::SpecialTokens::kKeep);
      for (const TokenId id : ids.value()) (void)stream.push(id);
      (void)stream.finish();
    }
  }
  for (TokenId id = 0; id < std::min(facts.vocab_size + 1, 64); ++id) (void)tokenizer->token_string(id);
  for (const std::string& text : tokenizer->special_texts()) QUIRE_CHECK(tokenizer->token_id(text).has_value()) << text;
  const auto chat = text::ChatTemplate::load("no-such-folder", tokenizer, "{{ messages[0]['content'] }}{{ eos_token }}");
  if (!chat.ok()) return;
  const text::ChatTemplateInput messages{.messages_json = R"([{"role":"user","content":"hi <|im_end|></s> there"}])"};
  (void)chat.value()->render(messages, text::AddSpecialTokens::kYes);
}

}  // namespace

void fuzz_tokenizer(Input input) {
  static const test::TempDir folder;
  const std::string_view text = text_of(input);
  const std::size_t end = std::min(text.find('\0'), text.size());
  folder.write("tokenizer.json", text.substr(0, end));
  folder.write("tokenizer_config.json", end == text.size() ? std::string_view("{}") : text.substr(end + 1));
  const auto tokenizer = text::Tokenizer::load(folder.path());
  if (tokenizer.ok()) {
    use(tokenizer.value());
  } else {
    QUIRE_CHECK(!tokenizer.error().message.empty());
  }
}

}  // namespace quire::fuzz
