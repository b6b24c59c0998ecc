// Ids, texts and renderings against what Hugging Face made of the same inputs (tools/make_text_goldens.py).
#include <chrono>
#include <cstdio>

#include "kit.h"
#include "kit/slowdown.h"

namespace quire::text::test {
namespace {

namespace json = boost::json;

class Goldens : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Goldens, testing::ValuesIn(kNames), [](const auto& param_info) { return param_info.param; });

TEST_P(Goldens, Encode) {
  const auto tokenizer = load(GetParam());
  const auto all = golden(GetParam());
  ASSERT_GT(all.at("encode").as_array().size(), 200u);
  for (const auto& entry : all.at("encode").as_array()) {
    const auto text = string_of(entry.at("text"));
    SCOPED_TRACE(json::serialize(entry.at("text")));
    EXPECT_EQ(tokenizer->encode(text, AddSpecialTokens::kNo).value(), ids_of(entry.at("ids")));
    EXPECT_EQ(tokenizer->encode(text, AddSpecialTokens::kYes).value(), ids_of(entry.at("with_special")));
    // Where Hugging Face itself ends at a control token, we refuse rather than pass it on.
    const auto ordinary = tokenizer->encode(text, AddSpecialTokens::kNo, SpecialText::kOrdinary);
    if (ordinary.ok()) {
      EXPECT_EQ(ordinary.value(), ids_of(entry.at("ordinary")));
    } else {
      EXPECT_EQ(ordinary.error().code, ErrorCode::kInvalidArgument);
      const auto theirs = ids_of(entry.at("ordinary"));
      EXPECT_TRUE(std::any_of(theirs.begin(), theirs.end(), [&](TokenId id) { return tokenizer->is_special(id); }));
    }
  }
}

TEST_P(Goldens, Decode) {
  const auto tokenizer = load(GetParam());
  const auto all = golden(GetParam());
  for (const auto& entry : all.at("decode").as_array()) {
    const auto ids = ids_of(entry.at("ids"));
    SCOPED_TRACE(json::serialize(entry.at("ids")));
    EXPECT_EQ(tokenizer->decode(ids, SpecialTokens::kKeep).value(), string_of(entry.at("text")));
    EXPECT_EQ(tokenizer->decode(ids, SpecialTokens::kSkip).value(), string_of(entry.at("skipped")));
  }
}

TEST_P(Goldens, LongRunsAreExactAndFast) {
  const auto tokenizer = load(GetParam());
  const auto all = golden(GetParam());
  for (const auto& entry : all.at("long").as_array()) {
    const auto unit = string_of(entry.at("unit"));
    std::string text;
    for (std::int64_t n = entry.at("count").as_int64(); n > 0; --n) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokenizer->encode(text, AddSpecialTokens::kNo).value();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), entry.at("num_ids").as_int64()) << unit;
    EXPECT_EQ(test::fnv_of(ids), string_of(entry.at("fnv"))) << unit;
    EXPECT_LT(took.count(), 5.0 * quire::test::kSlowdown) << unit;
  }
}

std::string field(const json::value& entry, const char* name) {
  const auto* value = entry.as_object().if_contains(name);
  return value == nullptr || value->is_null() ? std::string() : json::serialize(*value);
}

bool flag(const json::value& entry, const char* name) {
  const auto* value = entry.as_object().if_contains(name);
  return value != nullptr && value->as_bool();
}

TEST_P(Goldens, Chat) {
  const auto tokenizer = load(GetParam());
  const auto chat_template = load_template(GetParam());
  ASSERT_NE(chat_template, nullptr);
  const auto all = golden(GetParam());
  std::size_t num_rendered = 0;
  for (const auto& entry : all.at("chat").as_array()) {
    SCOPED_TRACE(json::serialize(entry.at("messages")));
    const ChatTemplateInput input{.messages_json = field(entry, "messages"), .tools_json = field(entry, "tools"), .kwargs_json = field(entry, "kwargs"),
                                  .documents_json = field(entry, "documents"), .add_generation_prompt = flag(entry, "add_generation_prompt"),
                                  .continue_final_message = flag(entry, "continue_final_message"), .now_unix = std::nullopt};
    const auto rendered = chat_template->render(input, AddSpecialTokens::kNo);
    if (entry.as_object().contains("error")) {
      EXPECT_FALSE(rendered.ok()) << rendered.value().text;
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << rendered.error().message;
    ++num_rendered;
    EXPECT_EQ(rendered.value().text, string_of(entry.at("text")));
    if (entry.as_object().contains("ids")) {
      EXPECT_EQ(rendered.value().tokens, ids_of(entry.at("ids")));
    }
  }
  EXPECT_GT(num_rendered, 15u);
}

}  // namespace
}  // namespace quire::text::test
