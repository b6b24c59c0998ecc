#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "api/api_bench.h"

namespace quire::api::test {
namespace {

namespace json = boost::json;

class Chat : public ::testing::Test {
 protected:
  void SetUp() override { bench.script->play(bench.encode("Tom has 7 apples.")); }
  std::string body(const std::string& rest = "", const std::string& content = "\"How many?\"") {
    return R"({"model":"gsm-tiny","messages":[{"role":"user","content":)" + content + "}]" + rest + "}";
  }
  ApiBench bench;
};

const json::object& choice(const json::object& answer) { return answer.at("choices").as_array().at(0).as_object(); }

TEST_F(Chat, AnswersInOpenAisShape) {
  const json::object answer = bench.ok("/v1/chat/completions", body());
  EXPECT_TRUE(answer.at("id").as_string().starts_with("chatcmpl-"));
  EXPECT_EQ(answer.at("object").as_string(), "chat.completion");
  const json::object& message = choice(answer).at("message").as_object();
  EXPECT_EQ(message.at("role").as_string(), "assistant");
  EXPECT_EQ(message.at("content").as_string(), "Tom has 7 apples.");
  EXPECT_TRUE(message.at("tool_calls").as_array().empty());
  EXPECT_TRUE(message.at("refusal").is_null());
  EXPECT_EQ(choice(answer).at("finish_reason").as_string(), "stop");
  EXPECT_TRUE(choice(answer).at("logprobs").is_null());
  const auto prompt = bench.tokenizer->encode("<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n", text::AddSpecialTokens::kNo);
  EXPECT_EQ(answer.at("usage").at("prompt_tokens").as_int64(), static_cast<std::int64_t>(prompt.value().size()));
}

TEST_F(Chat, TheRestOfTheContextIsTheDefaultLength) {
  bench.script->repeat(bench.encode(" apples"));
  const json::object answer = bench.ok("/v1/chat/completions", body());
  EXPECT_EQ(answer.at("usage").at("total_tokens").as_int64(), 2048);
  EXPECT_EQ(bench.ok("/v1/chat/completions", body(R"(,"max_tokens":7)")).at("usage").at("completion_tokens").as_int64(), 7);
  EXPECT_EQ(bench.ok("/v1/chat/completions", body(R"(,"max_tokens":7,"max_completion_tokens":5)")).at("usage").at("completion_tokens").as_int64(), 5);
}

TEST_F(Chat, ContentPartsAreFlattenedAndEmptyContentIsAccepted) {
  const auto tokens = [this](const std::string& messages) {
    return bench.ok("/v1/chat/completions", R"({"messages":)" + messages + R"(,"max_tokens":1})").at("usage").at("prompt_tokens").as_int64();
  };
  EXPECT_EQ(tokens(R"([{"role":"user","content":[{"type":"text","text":"How"},{"type":"text","text":"many?"}]}])"), tokens(R"([{"role":"user","content":"How\nmany?"}])"));
  const std::int64_t empty = tokens(R"([{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":"b"}])");
  EXPECT_EQ(tokens(R"([{"role":"user","content":"a"},{"role":"assistant","content":null},{"role":"user","content":"b"}])"), empty);
  EXPECT_EQ(tokens(R"([{"role":"user","content":"a"},{"role":"assistant"},{"role":"user","content":"b"}])"), empty);
  EXPECT_EQ(tokens(R"([{"role":"user","content":"a"},{"role":"assistant","content":[],"tool_calls":null},{"role":"user","content":"b"}])"), empty);
}

TEST_F(Chat, LogprobsHaveBytesAndOrder) {
  const json::object answer = bench.ok("/v1/chat/completions", body(R"(,"logprobs":true,"top_logprobs":4)"));
  const json::array& content = choice(answer).at("logprobs").at("content").as_array();
  const auto ids = bench.encode("Tom has 7 apples.");
  ASSERT_EQ(content.size(), ids.size() + 1);
  for (const json::value& entry : content) {
    const json::array& top = entry.at("top_logprobs").as_array();
    ASSERT_EQ(top.size(), 4u);
    double last = 0;
    for (const json::value& t : top) {
      EXPECT_LE(t.at("logprob").as_double(), last);
      last = t.at("logprob").as_double();
    }
    std::string bytes;
    for (const json::value& b : entry.at("bytes").as_array()) bytes += static_cast<char>(b.as_int64());
    EXPECT_EQ(bytes, entry.at("token").as_string());
  }
  EXPECT_TRUE(choice(bench.ok("/v1/chat/completions", body(R"(,"logprobs":true)"))).at("logprobs").at("content").as_array().at(0).at("top_logprobs").as_array().empty());
}

TEST_F(Chat, EchoRepeatsTheContinuedMessage) {
  const std::string request = R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"So: "}],"echo":true,"add_generation_prompt":false,"continue_final_message":true)";
  EXPECT_EQ(choice(bench.ok("/v1/chat/completions", request + "}")).at("message").at("content").as_string(), "So: Tom has 7 apples.");
  std::string joined;
  for (const json::object& event : parse_events(bench.call("/v1/chat/completions", request + R"(,"stream":true})").body))
    if (const json::value* text = choice(event).at("delta").as_object().if_contains("content")) joined += text->as_string();
  EXPECT_EQ(joined, "So: Tom has 7 apples.");
}

TEST_F(Chat, RefusesWhatIsNotBuiltAndWhatContradicts) {
  const std::string tool = R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}])";
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(tool)).at("param").as_string(), "tools");
  EXPECT_EQ(bench.ok("/v1/chat/completions", body(tool + R"(,"tool_choice":"none")")).at("object").as_string(), "chat.completion");
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(R"(,"tool_choice":"required")")).at("param").as_string(), "tool_choice");
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(R"(,"response_format":{"type":"json_object"})")).at("param").as_string(), "response_format");
  EXPECT_EQ(bench.ok("/v1/chat/completions", body(R"(,"response_format":{"type":"text"},"tools":[])")).at("object").as_string(), "chat.completion");
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(R"(,"top_logprobs":2)")).at("param").as_string(), "top_logprobs");
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(R"(,"chat_template":"{{ 1 }}")")).at("param").as_string(), "chat_template");
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(R"(,"add_generation_prompt":true,"continue_final_message":true)")).at("param").as_string(), "continue_final_message");
  EXPECT_EQ(bench.refused("/v1/chat/completions", body(R"(,"max_completion_tokens":0)")).at("param").as_string(), "max_completion_tokens");
  const auto image = bench.refused("/v1/chat/completions", body("", R"([{"type":"image_url","image_url":{"url":"http://x"}}])"));
  EXPECT_NE(std::string(image.at("message").as_string()).find("image_url"), std::string::npos);
  for (const char* messages : {"null", "[]", "[1]", R"([{"content":"x"}])", R"([{"role":1,"content":"x"}])", R"([{"role":"user","content":5}])", R"([{"role":"user","content":[5]}])",
                               R"([{"role":"user","content":[{"type":"text"}]}])"})
    EXPECT_EQ(bench.refused("/v1/chat/completions", std::string(R"({"messages":)") + messages + "}").at("param").as_string(), "messages") << messages;
}

}  // namespace
}  // namespace quire::api::test
