#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/api_bench.h"

namespace quire::api::test {
namespace {

namespace json = boost::json;

// Two numbers that differ from run to run become fixed words.
std::string normal(std::string text) {
  for (const auto& [before, after] : {std::pair<std::string, std::string>{"\"created\":", ","}, {"cmpl-", "\""}}) {
    for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
      at += before.size();
      text.replace(at, text.find(after, at) - at, "X");
    }
  }
  return text;
}

TEST(Stream, GoldenCompletionTranscript) {
  ApiBench bench;
  bench.script->play(bench.encode(" 12 apples"));
  const Reply reply = bench.call("/v1/completions", R"({"prompt":"Tom","stream":true,"max_tokens":9,"stream_options":{"include_usage":true}})");
  const std::string head = R"(data: {"id":"cmpl-X","object":"text_completion","created":X,"model":"gsm-tiny","choices":[)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],"usage":null})";
  std::string want;
  const auto ids = bench.encode(" 12 apples");
  for (const TokenId id : ids) want += head + R"({"index":0,"text":)" + json::serialize(json::string(bench.decode({id}))) + tail + "\n\n";
  want += head + R"({"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],"usage":null})" "\n\n";
  const auto prompt = bench.encode("Tom").size();
  const auto made = ids.size() + 1;
  want += head + R"(],"usage":{"prompt_tokens":)" + std::to_string(prompt) + R"(,"total_tokens":)" + std::to_string(prompt + made) + R"(,"completion_tokens":)" + std::to_string(made) +
          R"(,"prompt_tokens_details":null}})" "\n\ndata: [DONE]\n\n";
  EXPECT_EQ(normal(reply.body), want);
}

TEST(Stream, GoldenChatTranscript) {
  ApiBench bench;
  bench.script->play(bench.encode("12"));
  const Reply reply = bench.call("/v1/chat/completions", R"({"messages":[{"role":"user","content":"?"}],"stream":true})");
  const std::string head = R"(data: {"id":"chatcmpl-X","object":"chat.completion.chunk","created":X,"model":"gsm-tiny","choices":[{"index":0,"delta":{)";
  EXPECT_EQ(normal(reply.body), head + R"("role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})" "\n\n" +
                                    head + R"("content":"1"},"logprobs":null,"finish_reason":null}]})" "\n\n" +
                                    head + R"("content":"2"},"logprobs":null,"finish_reason":null}]})" "\n\n" +
                                    head + R"("content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})" "\n\ndata: [DONE]\n\n");
}

struct Joined {
  std::string text, finish;
  json::value stop_reason;
  json::array tokens, values, tops, offsets, ids;
};

std::vector<Joined> join(const std::vector<json::object>& events, std::size_t num) {
  std::vector<Joined> out(num);
  for (const json::object& event : events) {
    for (const json::value& c : event.at("choices").as_array()) {
      Joined& j = out.at(static_cast<std::size_t>(c.at("index").as_int64()));
      EXPECT_TRUE(j.finish.empty()) << "a chunk after the finish";
      j.text += c.at("text").as_string();
      if (!c.at("finish_reason").is_null()) j.finish = c.at("finish_reason").as_string();
      j.stop_reason = c.at("stop_reason");
      const auto extend = [](json::array& to, const json::value& from) {
        if (from.is_array()) to.insert(to.end(), from.get_array().begin(), from.get_array().end());
      };
      extend(j.ids, c.at("token_ids"));
      if (c.at("logprobs").is_null()) continue;
      extend(j.tokens, c.at("logprobs").at("tokens"));
      extend(j.values, c.at("logprobs").at("token_logprobs"));
      extend(j.tops, c.at("logprobs").at("top_logprobs"));
      extend(j.offsets, c.at("logprobs").at("text_offset"));
    }
  }
  return out;
}

// The joined stream is the whole answer: text, finish, ids, log-probabilities and offsets, for every kind of ending.
TEST(Stream, JoinedEqualsWhole) {
  ApiBench bench;
  const std::string said = "Ünïcødé 😀 end. Question: Answer: #### 12 apples.";
  const std::vector<std::string> variants = {
      R"("max_tokens":400)", R"("max_tokens":7)", R"("max_tokens":400,"stop":["n: An"])", R"("max_tokens":400,"stop":["n: An","😀"],"include_stop_str_in_output":true)",
      R"("max_tokens":400,"stop":["12 apples.!"])", R"("max_tokens":400,"echo":true,"logprobs":3)", R"("max_tokens":400,"logprobs":2,"stop":"####")", R"("max_tokens":0,"echo":true,"logprobs":1)",
      R"("max_tokens":400,"n":3,"temperature":1,"seed":5,"stop":["s. Ü"])", R"("max_tokens":400,"skip_special_tokens":false)", R"("max_tokens":9,"min_tokens":9,"ignore_eos":true)"};
  for (const bool repeat : {false, true}) {
    if (repeat) bench.script->repeat(bench.encode(said));
    else bench.script->play(bench.encode(said));
    for (const std::string& variant : variants) {
      const std::string body = R"({"prompt":["Tom é","x"],"return_token_ids":true,)" + variant;
      const json::object whole = bench.ok("/v1/completions", body + "}");
      const auto choices = whole.at("choices").as_array();
      const auto joined = join(parse_events(bench.call("/v1/completions", body + R"(,"stream":true})").body), choices.size());
      for (std::size_t i = 0; i < choices.size(); ++i) {
        const json::value& c = choices[i];
        EXPECT_EQ(joined[i].text, c.at("text").as_string()) << variant;
        EXPECT_EQ(joined[i].finish, c.at("finish_reason").as_string()) << variant;
        EXPECT_EQ(joined[i].stop_reason, c.at("stop_reason")) << variant;
        EXPECT_EQ(json::serialize(joined[i].ids), json::serialize(c.at("token_ids"))) << variant;
        if (c.at("logprobs").is_null()) continue;
        EXPECT_EQ(json::serialize(joined[i].tokens), json::serialize(c.at("logprobs").at("tokens"))) << variant;
        EXPECT_EQ(json::serialize(joined[i].values), json::serialize(c.at("logprobs").at("token_logprobs"))) << variant;
        EXPECT_EQ(json::serialize(joined[i].tops), json::serialize(c.at("logprobs").at("top_logprobs"))) << variant;
        EXPECT_EQ(json::serialize(joined[i].offsets), json::serialize(c.at("logprobs").at("text_offset"))) << variant;
      }
    }
  }
  EXPECT_EQ(bench.mailbox.num_requests(), 0u);
}

TEST(Stream, ContinuousUsageCountsUp) {
  ApiBench bench;
  bench.script->play(bench.encode(" 1 2 3"));
  const auto events = parse_events(bench.call("/v1/completions", R"({"prompt":"Tom","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})").body);
  std::int64_t last = 0;
  for (const json::object& event : events) {
    const std::int64_t now = event.at("usage").at("completion_tokens").as_int64();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(last, static_cast<std::int64_t>(bench.encode(" 1 2 3").size()) + 1);
  EXPECT_TRUE(events.back().at("choices").as_array().empty());
}

TEST(Stream, UsageComesOnlyWhenAsked) {
  ApiBench bench;
  bench.script->play(bench.encode(" 1"));
  for (const json::object& event : parse_events(bench.call("/v1/completions", R"({"prompt":"Tom","stream":true})").body)) EXPECT_TRUE(event.at("usage").is_null());
  for (const json::object& event : parse_events(bench.call("/v1/chat/completions", R"({"messages":[{"role":"user","content":"?"}],"stream":true})").body)) EXPECT_FALSE(event.contains("usage"));
}

TEST(Stream, AFailureInTheMiddleIsOneErrorEventThenDone) {
  ApiBench bench;
  bench.script->repeat(bench.encode(" 1 2 3"));
  Call call;
  call.route = find_route("POST", "/v1/completions").route;
  call.content_type = "application/json; charset=utf-8";
  call.body = R"({"prompt":"Tom","stream":true,"max_tokens":50})";
  bench.script->hold();
  auto generation = std::get<std::unique_ptr<Generation>>(bench.answer(call));
  ASSERT_TRUE(generation->submit(bench.mailbox).ok());
  bench.script->allow(3);
  std::string events;
  while (events.find("data: ") == std::string::npos && bench.mailbox.wait(10000)) {
    bench.mailbox.deliver();
    events += generation->take_events();
  }
  bench.script->fail_next_step();
  bench.script->allow_all();
  while (!generation->finished() && bench.mailbox.wait(10000)) {
    bench.mailbox.deliver();
    events += generation->take_events();
  }
  const auto parsed = parse_events(events + generation->take_events());
  ASSERT_GE(parsed.size(), 2u);
  EXPECT_EQ(parsed.back().at("error").at("code").as_int64(), 500);
  EXPECT_EQ(bench.mailbox.num_requests(), 0u);
}

}  // namespace
}  // namespace quire::api::test
