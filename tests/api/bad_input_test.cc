// Bad requests get a clear 4xx that names the field, and the next good request still works.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>
#include <string_view>

#include "api/api_bench.h"
#include "kit/slowdown.h"

namespace quire::api::test {
namespace {

struct Case {
  std::string body;
  std::string param;  // empty: any
  int status = 400;
};

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override { bench.script->play(bench.encode(" fine")); }
  void still_works() {
    EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":"a"})").at("choices").as_array().at(0).at("text").as_string(), " fine");
    EXPECT_EQ(bench.mailbox.num_requests(), 0u);
  }
  ApiBench bench;
};

TEST_F(BadInput, CompletionFields) {
  const std::vector<Case> cases = {
      {R"({})", "prompt"}, {R"({"prompt":null})", "prompt"}, {R"({"prompt":""})", "prompt"}, {R"({"prompt":[]})", "prompt"}, {R"({"prompt":[[]]})", "prompt"}, {R"({"prompt":[""]})", "prompt"},
      {R"({"prompt":5})", "prompt"}, {R"({"prompt":{"a":1}})", "prompt"}, {R"({"prompt":["a",[1]]})", "prompt"}, {R"({"prompt":[1,"a"]})", "prompt"}, {R"({"prompt":[[1],["a"]]})", "prompt"},
      {R"({"prompt":[576]})", "prompt"}, {R"({"prompt":[-1]})", "prompt"}, {R"({"prompt":[1.5]})", "prompt"}, {R"({"prompt":[1e300]})", "prompt"}, {R"({"prompt":[18446744073709551615]})", "prompt"},
      {R"({"prompt":[99999999999]})", "prompt"}, {R"({"prompt":[[5],[-7]]})", "prompt"},
      {R"({"prompt":"a","model":"nope"})", "model", 404}, {R"({"prompt":"a","model":5})", "model"},
      {R"({"prompt":"a","n":2})", ""}, {R"({"prompt":"a","n":2,"temperature":0})", "n"}, {R"({"prompt":"a","best_of":3})", "best_of"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens"}, {R"({"prompt":"a","max_tokens":-5})", "max_tokens"}, {R"({"prompt":"a","max_tokens":"16"})", "max_tokens"},
      {R"({"prompt":"a","max_tokens":2048})", "max_tokens"}, {R"({"prompt":[5,6],"max_tokens":2047})", "input_tokens"}, {R"({"prompt":"a","max_tokens":5,"min_tokens":6})", "min_tokens"},
      {R"({"prompt":"a","stop":""})", "stop"}, {R"({"prompt":"a","stop":["x",""]})", "stop"}, {R"({"prompt":"a","stop":[1]})", "stop"},
      {R"({"prompt":"a","stop_token_ids":[576]})", "stop_token_ids"}, {R"({"prompt":"a","stop_token_ids":[-1]})", "stop_token_ids"}, {R"({"prompt":"a","stop_token_ids":5})", "stop_token_ids"},
      {R"({"prompt":"a","logit_bias":{"576":1}})", "logit_bias"}, {R"({"prompt":"a","logit_bias":{"-1":1}})", "logit_bias"}, {R"({"prompt":"a","logit_bias":{"x":1}})", "logit_bias"},
      {R"({"prompt":"a","logit_bias":{"1":"x"}})", "logit_bias"}, {R"({"prompt":"a","logit_bias":[1]})", "logit_bias"}, {R"({"prompt":"a","logit_bias":{"99999999999999999999":1}})", "logit_bias"},
      {R"({"prompt":"a","allowed_token_ids":[]})", "allowed_token_ids"}, {R"({"prompt":"a","allowed_token_ids":[576]})", "allowed_token_ids"},
      {R"({"prompt":"a","bad_words":[""]})", "bad_words"}, {R"({"prompt":"a","bad_words":["  "]})", "bad_words"}, {R"({"prompt":"a","bad_words":5})", "bad_words"},
      {R"({"prompt":"a","truncate_prompt_tokens":0})", "truncate_prompt_tokens"}, {R"({"prompt":"a","truncate_prompt_tokens":2049})", "truncate_prompt_tokens"},
      {R"({"prompt":"a","truncation_side":"right"})", "truncation_side"}, {R"({"prompt":"a","logprobs":21})", "logprobs"}, {R"({"prompt":"a","logprobs":true})", "logprobs"},
      {R"({"prompt":"a","prompt_logprobs":1,"stream":true})", "prompt_logprobs"}, {R"({"prompt":"a","stream_options":{"include_usage":true}})", "stream_options"},
      {R"({"prompt":"a","stream":true,"stream_options":{"include_usage":1}})", "stream_options"}, {R"({"prompt":"a","priority":3})", "priority"},
      {R"({"prompt":"a","suffix":"x"})", "suffix"}, {R"({"prompt":"a","use_beam_search":true})", "use_beam_search"}, {R"({"prompt":"a","guided_json":{"a":1}})", "guided_json"},
      {R"({"prompt":"a","structured_outputs":{"regex":"a"}})", "structured_outputs"}, {R"({"prompt":"a","response_format":{"type":"json_object"}})", "response_format"},
      {R"({"prompt":"a","response_format":{}})", "response_format"}, {R"({"prompt":"a","prompt_embeds":"AAAA"})", "prompt_embeds"}, {R"({"prompt":"a","cache_salt":""})", "cache_salt"},
      {R"({"prompt":"a","seed":1e19})", "seed"}, {R"({"prompt":"a","seed":"x"})", "seed"}, {R"({"prompt":"a","temperature":"hot"})", "temperature"}, {R"({"prompt":"a","temperature":-1})", "temperature"},
      {R"([1])", ""}, {R"("x")", ""}, {R"(null)", ""}, {"", ""}, {"{", ""}, {R"({"prompt":"a"} trailing)", ""}, {R"({"prompt":"a","temperature":NaN})", ""}, {R"({"prompt":"\ud800"})", ""},
      {"{\"prompt\":\"\xff\xfe\"}", ""}, {"{\"prompt\":\"\xed\xa0\x80\"}", ""}, {"{\"prompt\":\"\xc0\xaf\"}", ""}, {std::string("{\"prompt\":\"a\0b\"}", 16), ""}};
  for (const Case& c : cases) {
    if (c.body == R"({"prompt":"a","n":2})") continue;  // fine without a temperature: the default samples
    const auto error = bench.refused("/v1/completions", c.body, c.status);
    if (c.param.empty()) continue;
    ASSERT_TRUE(error.at("param").is_string()) << c.body;
    EXPECT_EQ(error.at("param").as_string(), c.param) << c.body;
  }
  still_works();
}

TEST_F(BadInput, DeepAndWideJson) {
  for (const char open : {'[', '{'}) {
    std::string body = R"({"prompt":"a","x":)";
    for (int i = 0; i < 10000; ++i) body += open == '[' ? "[" : R"({"k":)";
    const auto error = bench.refused("/v1/completions", body);
    EXPECT_NE(std::string(error.at("message").as_string()).find("deeper"), std::string::npos);
  }
  std::string wide = R"({"prompt":"a")";
  for (int i = 0; i < 50000; ++i) wide += ",\"unknown" + std::to_string(i) + "\":" + std::to_string(i);
  EXPECT_EQ(bench.call("/v1/completions", wide + "}").status, 200);
  still_works();
}

TEST_F(BadInput, CountsHaveLimitsThatTheTextNames) {
  const auto list = [](int n, const std::string& item) {
    std::string out;
    for (int i = 0; i < n; ++i) out += (i ? "," : "") + item;
    return "[" + out + "]";
  };
  const auto message = [this](const std::string& body) { return std::string(bench.refused("/v1/completions", body).at("message").as_string()); };
  EXPECT_NE(message(R"({"prompt":)" + list(1025, "\"a\"") + "}").find("1024"), std::string::npos);
  const std::string product = message(R"({"prompt":)" + list(20, "[5]") + R"(,"n":100,"temperature":1})");
  EXPECT_NE(product.find("20 prompts times n: 100 are 2000 sequences; one request may have at most 1024 (--max-prompts-per-request)"), std::string::npos) << product;
  EXPECT_NE(message(R"({"prompt":"a","n":129,"temperature":1})").find("128"), std::string::npos);
  EXPECT_NE(message(R"({"prompt":"a","stop":)" + list(65, "\"z\"") + "}").find("64"), std::string::npos);
  EXPECT_NE(message(R"({"prompt":"a","stop":")" + std::string(1025, 'z') + "\"}").find("1024"), std::string::npos);
  EXPECT_NE(message(R"({"prompt":"a","bad_words":)" + list(1025, "\"z\"") + "}").find("1024"), std::string::npos);
  EXPECT_NE(message(R"({"prompt":"a","stop_token_ids":)" + list(65537, "5") + "}").find("65536"), std::string::npos);
  still_works();
}

// What the device keeps of a request's lists is bounded; more would stop the server at the runner, so it must end here.
TEST_F(BadInput, ListsThatNoDeviceHoldsAreRefused) {
  std::string bias, words;
  for (int i = 0; i < 1500; ++i) bias += (i ? ",\"" : "\"") + std::string(static_cast<std::size_t>(i), '0') + "5\":1";
  for (int i = 0; i < 300; ++i) words += (i ? "," : "") + ("\"many different words " + std::to_string(i) + "\"");
  std::string ids;
  for (int i = 0; i < 576; ++i) ids += (i ? "," : "") + std::to_string(i);
  std::string some_bias;
  for (int i = 0; i < 576; ++i) some_bias += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
  for (const std::string& fields : {"\"logit_bias\":{" + bias + "}", "\"bad_words\":[" + words + "]",
                                    "\"allowed_token_ids\":[" + ids + "],\"stop_token_ids\":[" + ids + "],\"logit_bias\":{" + some_bias + "}"}) {
    const auto error = bench.refused("/v1/completions", R"({"prompt":"a",)" + fields + "}");
    EXPECT_NE(std::string(error.at("message").as_string()).find("the limit is 2048"), std::string::npos) << error.at("message");
    still_works();
  }
  // A list is a set: one id many times takes one entry.
  std::string same = "[5";
  for (int i = 0; i < 5000; ++i) same += ",5";
  EXPECT_EQ(bench.call("/v1/completions", R"({"prompt":"a","stop_token_ids":)" + same + "]}").status, 200);
}

TEST_F(BadInput, TextsOfOneRequestAreBoundedTogether) {
  std::string texts;
  for (int i = 0; i < 60; ++i) texts += (i ? ",\"" : "\"") + std::string(90000, 'x') + "\"";
  const auto error = bench.refused("/v1/completions", R"({"prompt":[)" + texts + "]}");
  EXPECT_NE(std::string(error.at("message").as_string()).find("4194304"), std::string::npos) << error.at("message");
  still_works();
}

TEST_F(BadInput, TooLongPromptsSayBothNumbers) {
  std::string ids = "[5";
  for (int i = 1; i < 2040; ++i) ids += ",5";
  const auto error = bench.refused("/v1/completions", R"({"prompt":)" + ids + R"(],"max_tokens":16})");
  const std::string message(error.at("message").as_string());
  for (const char* number : {"2048", "2040", "16", "2032", "maximum context length"}) EXPECT_NE(message.find(number), std::string::npos) << message;
  EXPECT_EQ(error.at("param").as_string(), "input_tokens");
  std::string full = "[5";
  for (int i = 1; i < 2048; ++i) full += ",5";
  bench.refused("/v1/completions", R"({"prompt":)" + full + R"(],"max_tokens":null})");
  bench.refused("/v1/completions", R"({"prompt":)" + full + R"(],"max_tokens":0,"echo":true})");
  bench.refused("/v1/completions", R"({"prompt":")" + std::string(600000, 'x') + "\"}");  // refused before it is tokenised
  // The bound that the text names is four times the longest token for each place: one byte less is tokenised and then counted.
  const std::size_t most = 4 * bench.tokenizer->facts().max_token_bytes * 2048;
  for (const bool over : {false, true}) {
    const auto refused = bench.refused("/v1/completions", R"({"prompt":")" + std::string(most + (over ? 1 : 0), 'x') + "\"}");
    EXPECT_EQ(std::string_view(refused.at("message").as_string()).find("are tokenised") != std::string_view::npos, over) << refused.at("message");
  }
  bench.refused("/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + std::string(20000, 'q') + "\"}]}");
  still_works();
}

// As servers written in Python read it; the fields that are read are the ones that were checked.
TEST_F(BadInput, AKeyThatStandsTwiceKeepsTheLastValue) {
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":"x","max_tokens":9,"max_tokens":2})").at("usage").at("completion_tokens").as_int64(), 2);
  EXPECT_EQ(bench.refused("/v1/completions", R"({"prompt":"x","max_tokens":2,"max_tokens":-1})").at("param").as_string(), "max_tokens");
}

// Parameters that leave no token to choose, as far as a request alone shows it: 400 that names every field that takes part.
TEST_F(BadInput, ContradictionsAreRefusedByName) {
  std::string all;
  for (int i = 0; i < 576; ++i) all += (i ? "," : "") + std::to_string(i);
  const std::string x = "\"" + bench.decode(bench.encode("x")) + "\"", x_id = std::to_string(bench.encode("x").at(0));
  ASSERT_EQ(bench.encode("x").size(), 1u);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("allowed_token_ids":[0],"min_tokens":1)", "allowed_token_ids and min_tokens together leave no token to choose; end tokens"},
      {R"("allowed_token_ids":[7,9],"stop_token_ids":[9,7],"min_tokens":3,"ignore_eos":true)", "allowed_token_ids and min_tokens together"},
      {R"("allowed_token_ids":[)" + x_id + R"(],"bad_words":[)" + x + "]", "allowed_token_ids and bad_words together leave no token to choose"},
      {R"("allowed_token_ids":[0,)" + x_id + R"(],"bad_words":[)" + x + R"(],"min_tokens":2)", "allowed_token_ids, bad_words and min_tokens together"},
      {R"("stop_token_ids":[)" + all + R"(],"min_tokens":2)", "min_tokens leaves no token to choose"}};
  for (const auto& [fields, expected] : cases) {
    for (const char* prompt : {"\"a\"", "[5,6]", "[[5],[6]]"}) {
      const auto error = bench.refused("/v1/completions", R"({"prompt":)" + std::string(prompt) + "," + fields + R"(,"max_tokens":9})");
      const std::string message(error.at("message").as_string());
      EXPECT_TRUE(message.starts_with(expected)) << fields << "\n" << message;
      EXPECT_EQ(error.at("param").as_string(), expected.substr(0, expected.find_first_of(", "))) << fields;
    }
    bench.refused("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],)" + fields + "}");
  }
  // One token more, or one condition less, is no contradiction; a bias of -100 masks nothing.
  for (const std::string& fields : {std::string(R"("allowed_token_ids":[0,7],"min_tokens":1)"), std::string(R"("allowed_token_ids":[0])"), R"("stop_token_ids":[)" + all + "]",
                                    R"("allowed_token_ids":[)" + x_id + R"(],"bad_words":["xx"])", std::string(R"("allowed_token_ids":[7],"logit_bias":{"7":-100})")})
    EXPECT_EQ(bench.call("/v1/completions", R"({"prompt":"a","max_tokens":9,)" + fields + "}").status, 200) << fields;
  still_works();
}

// What only shows while the answer is made ends that request alone, as the caller's mistake.
TEST_F(BadInput, AContradictionThatShowsLaterIsA400AndHurtsNobodyElse) {
  bench.script->repeat(bench.encode(" one two"));
  bench.script->leave_no_token_after(2, 7);  // for requests with that seed
  const auto error = bench.refused("/v1/completions", R"({"prompt":"a","seed":7,"temperature":1,"max_tokens":9})");
  EXPECT_EQ(error.at("type").as_string(), "BadRequestError");
  EXPECT_NE(std::string(error.at("message").as_string()).find("leave no token"), std::string::npos) << error.at("message");
  const Reply stream = bench.call("/v1/completions", R"({"prompt":"a","seed":7,"temperature":1,"max_tokens":9,"stream":true})");
  const auto events = parse_events(stream.body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().at("error").as_object().at("code").as_int64(), 400);
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":"a","seed":8,"temperature":1,"max_tokens":9})").at("usage").as_object().at("completion_tokens").as_int64(), 9);
  bench.script->play(bench.encode(" fine"));
  still_works();
}

TEST_F(BadInput, ContentTypeMustBeJson) {
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) EXPECT_EQ(bench.call("/v1/completions", R"({"prompt":"a"})", type).status, 400) << type;
  EXPECT_EQ(bench.call("/v1/completions", R"({"prompt":"a"})", "Application/JSON; charset=utf-8").status, 200);
}

// The entry of a list that is wrong is named, at any depth.
TEST_F(BadInput, MessagesNameTheEntry) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("prompt":[5,6,576])", "prompt[2]: token id 576 "}, {R"("prompt":[5,"a"])", "prompt[1]: \"a\" is not a token id"}, {R"("prompt":[[5],[6,-7]])", "prompt[1][1]: token id -7 "},
      {R"("prompt":[5,18446744073709551615])", "prompt[1]: token id 18446744073709551615 is outside the vocabulary (0 to 575)"}, {R"("prompt":["a",""])", "prompt[1]: it is empty"},
      {R"("prompt":["a",[1]])", "prompt[1]: a list of 1 in a list whose first entry is \"a\""}, {R"("prompt":["a",7])", "prompt[1]: 7 in a list"},
      {R"("prompt":"a","stop":["x",""])", "stop[1]: an empty string"}, {R"("prompt":"a","stop":"")", "stop: an empty string"}, {R"("prompt":"a","stop":["x",1])", "stop[1]: 1 is not a string"},
      {R"("prompt":"a","allowed_token_ids":[1,2,576])", "allowed_token_ids[2]: token id 576 "}, {R"("prompt":"a","stop_token_ids":[1,9223372036854775808])", "stop_token_ids[1]: token id 9223372036854775808 "},
      {R"("prompt":"a","bad_words":["x"," "])", "bad_words[1]: "}, {R"("prompt":"a","bad_words":["x",3])", "bad_words[1]: 3 is not a string"},
      {R"("prompt":"a","logit_bias":{"1":1,"576":1})", "logit_bias[\"576\"]: "}, {R"("prompt":"a","logit_bias":{"1":1,"2":"x"})", "logit_bias[\"2\"]: \"x\" is not a finite number"},
      {R"("prompt":"a","logit_bias":{"1":1e999})", "logit_bias[\"1\"]: "}};
  for (const auto& [fields, expected] : cases) {
    const std::string message(bench.refused("/v1/completions", "{" + fields + "}").at("message").as_string());
    EXPECT_TRUE(message.starts_with(expected)) << fields << "\n" << message;
  }
  EXPECT_TRUE(std::string_view(bench.refused("/detokenize", R"({"tokens":[1,99999]})").at("message").as_string()).starts_with("tokens[1]: token id 99999 "));
  const std::string place(bench.refused("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"modalities":["text","audio"]})").at("message").as_string());
  EXPECT_TRUE(place.starts_with("modalities[1]: ")) << place;
  std::string ids = "5";
  for (int i = 1; i < 2040; ++i) ids += ",5";
  const std::string long_one(bench.refused("/v1/completions", R"({"prompt":[[5],[)" + ids + R"(]]})").at("message").as_string());
  EXPECT_TRUE(long_one.starts_with("prompt[1]: This model's maximum")) << long_one;
  still_works();
}

// Refused at once, with no text read: a long prompt must not be tokenised first.
TEST_F(BadInput, WhatNeedsNoTextIsCheckedBeforeAnyText) {
  const auto at_once = [this](const std::string& path, const std::string& body) {
    Call call;
    call.route = find_route("POST", path).route;
    call.content_type = "application/json";
    call.body = body;
    const Opening opening = bench.service->open(call);
    return std::holds_alternative<Reply>(opening) && std::get<Reply>(opening).status == 400;
  };
  EXPECT_TRUE(at_once("/v1/completions", R"({"prompt":"a","truncate_prompt_tokens":2049})"));
  EXPECT_TRUE(at_once("/v1/completions", R"({"prompt":"a","truncation_side":"right","bad_words":["x"]})"));
  for (const char* fields : {R"("truncate_prompt_tokens":2049)", R"("truncate_prompt_tokens":0)", R"("continue_final_message":true)", R"("tools":[{"type":"function"}])",
                             R"("chat_template_kwargs":{"messages":[]})", R"("documents":[{}])"})
    EXPECT_TRUE(at_once("/v1/chat/completions", std::string(R"({"messages":[{"role":"user","content":"a"}],"bad_words":["x"],)") + fields + "}")) << fields;
  EXPECT_TRUE(at_once("/v1/chat/completions", R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"));
  EXPECT_FALSE(at_once("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})"));
}

TEST_F(BadInput, MinTokensNamesWhatBoundsIt) {
  const auto message = [](ApiBench& at, const std::string& body) { return std::string(at.refused("/v1/completions", body).at("message").as_string()); };
  EXPECT_EQ(message(bench, R"({"prompt":[5],"max_tokens":null,"min_tokens":2048})"), "min_tokens: 2048 does not fit; the context leaves 2047 output tokens");
  BenchOptions options;
  options.settings.defaults.max_new_tokens = 20;
  ApiBench bounded(options);
  EXPECT_EQ(message(bounded, R"({"prompt":[5],"max_tokens":null,"min_tokens":21})"), "min_tokens: 21 does not fit; max_new_tokens of the server's generation defaults leaves 20 output tokens");
}

TEST_F(BadInput, TooManyOutputTokensSaysWhatWouldFit) {
  const auto message = [this](const std::string& path, const std::string& body, const std::string& param) {
    const auto error = bench.refused(path, body);
    EXPECT_EQ(error.at("param").as_string(), param) << body;
    return std::string(error.at("message").as_string());
  };
  const std::string alone = message("/v1/completions", R"({"prompt":[5,6,7],"max_tokens":10000})", "max_tokens");
  EXPECT_EQ(alone, "This model's maximum context length is 2048 tokens, and max_tokens: 10000 plus the input's 3 is more. With this input max_tokens may be at most 2045.");
  const std::string both = message("/v1/completions", R"({"prompt":[5,6,7],"max_tokens":2046})", "input_tokens");
  EXPECT_NE(both.find("max_tokens may be at most 2045; with this max_tokens the input may have at most 2."), std::string::npos) << both;
  const std::string chat = message("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_completion_tokens":10000})", "max_completion_tokens");
  EXPECT_NE(chat.find("max_completion_tokens: 10000 plus"), std::string::npos) << chat;
  for (const std::string& text : {alone, both, chat}) EXPECT_EQ(text.find("at most 0"), std::string::npos) << text;
  still_works();
}

TEST_F(BadInput, WhatTheTemplateNeverReadsIsRefused) {
  const std::string messages = R"({"messages":[{"role":"user","content":"a"}],)";
  for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
    EXPECT_EQ(bench.refused(path, messages + R"("documents":[{"title":"t","text":"x"}]})").at("param").as_string(), "documents") << path;
    EXPECT_EQ(bench.refused(path, messages + R"("reasoning_effort":"high"})").at("param").as_string(), "reasoning_effort") << path;
    EXPECT_EQ(bench.call(path, messages + R"("documents":[],"reasoning_effort":null})").status, 200) << path;
  }
}

// What could never be in the queue at once is the caller's mistake; coming back later cannot help.
TEST_F(BadInput, MoreSequencesThanTheQueueHoldsIsA400ThatNamesIt) {
  BenchOptions options;
  options.max_queue = 3;
  ApiBench small(options);
  small.script->play(small.encode(" fine"));
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{{R"({"prompt":["a","b","c","d"]})", "prompt"}, {R"({"prompt":["a","b"],"n":2})", "prompt"}, {R"({"prompt":"a","n":4})", "n"}}) {
    const auto error = small.refused("/v1/completions", body);
    EXPECT_EQ(error.at("param").as_string(), param) << body;
    EXPECT_NE(std::string(error.at("message").as_string()).find("at most 3 (--max-queue)"), std::string::npos) << error.at("message");
  }
  EXPECT_EQ(small.refused("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"n":4})").at("param").as_string(), "n");
  EXPECT_EQ(small.call("/v1/completions", R"({"prompt":"a","n":3})").status, 200);
}

TEST_F(BadInput, AFullQueueIsA429WithRetryAfterAndNothingStays) {
  BenchOptions options;
  options.max_queue = 3;
  ApiBench small(options);
  small.script->play(small.encode(" fine"));
  small.script->hold();
  Mailbox other;
  Call first{.route = find_route("POST", "/v1/completions").route, .content_type = "application/json", .request_id = {}, .credential = {}, .body = R"({"prompt":["a","b"]})"};
  Answer running = small.answer(first);
  ASSERT_TRUE(std::get<std::unique_ptr<Generation>>(running)->submit(other).ok());
  const Reply reply = small.call("/v1/completions", R"({"prompt":["a","b"]})");
  std::get<std::unique_ptr<Generation>>(running).reset();
  small.script->allow_all();
  EXPECT_EQ(reply.status, 429);
  ASSERT_FALSE(reply.headers.empty());
  EXPECT_EQ(reply.headers[0].first, "Retry-After");
  EXPECT_EQ(small.mailbox.num_requests(), 0u);
  // The sequences that did get in were taken back.
  for (int i = 0; i < 500 * quire::test::kSlowdown && small.engine->status().num_sequences() > 0; ++i) (void)small.mailbox.wait(10);
  EXPECT_EQ(small.call("/v1/completions", R"({"prompt":["a","b","c"]})").status, 200);
}

TEST_F(BadInput, OtherTasksAreRefusedAsSuch) {
  for (const char* path : {"/v1/embeddings", "/v1/responses", "/score", "/v1/audio/transcriptions"}) EXPECT_EQ(bench.refused(path, R"({"input":"a"})").at("type").as_string(), "NotImplementedError");
}

}  // namespace
}  // namespace quire::api::test
