#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/api_bench.h"

namespace quire::api::test {
namespace {

namespace json = boost::json;

const json::object& choice(const json::object& answer, std::size_t i = 0) { return answer.at("choices").as_array().at(i).as_object(); }
std::string text_of(const json::object& answer, std::size_t i = 0) { return std::string(choice(answer, i).at("text").as_string()); }

class Completions : public ::testing::Test {
 protected:
  void SetUp() override {
    said = " She has 12 apples. #### 12";
    bench.script->play(bench.encode(said));
  }
  ApiBench bench;
  std::string said;
};

TEST_F(Completions, AnswersInOpenAisShape) {
  const json::object answer = bench.ok("/v1/completions", R"({"model":"gsm-tiny","prompt":"Question: How many?","max_tokens":100,"temperature":0})");
  const std::string id(answer.at("id").as_string());
  EXPECT_EQ(id.size(), 5u + 32u);
  EXPECT_TRUE(id.starts_with("cmpl-")) << id;
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef", 5), std::string::npos);
  EXPECT_EQ(answer.at("object").as_string(), "text_completion");
  EXPECT_EQ(answer.at("model").as_string(), "gsm-tiny");
  EXPECT_GT(answer.at("created").as_int64(), 1500000000);
  EXPECT_EQ(text_of(answer), said);
  const json::object& c = choice(answer);
  EXPECT_EQ(c.at("finish_reason").as_string(), "stop");
  for (const char* null_field : {"stop_reason", "logprobs", "token_ids", "prompt_logprobs", "prompt_token_ids"}) EXPECT_TRUE(c.at(null_field).is_null()) << null_field;
  for (const char* null_field : {"service_tier", "system_fingerprint", "kv_transfer_params"}) EXPECT_TRUE(answer.at(null_field).is_null()) << null_field;
  const json::object& usage = answer.at("usage").as_object();
  const auto prompt_tokens = static_cast<std::int64_t>(bench.encode("Question: How many?").size());
  const auto made = static_cast<std::int64_t>(bench.encode(said).size()) + 1;  // and the end token
  EXPECT_EQ(usage.at("prompt_tokens").as_int64(), prompt_tokens);
  EXPECT_EQ(usage.at("completion_tokens").as_int64(), made);
  EXPECT_EQ(usage.at("total_tokens").as_int64(), prompt_tokens + made);
}

TEST_F(Completions, MaxTokensDefaultsTo16AndNullMeansTheRestOfTheContext) {
  bench.script->repeat(bench.encode(" apples"));
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":"a"})").at("usage").at("completion_tokens").as_int64(), 16);
  const json::object all = bench.ok("/v1/completions", R"({"prompt":[5,6,7],"max_tokens":null})");
  EXPECT_EQ(all.at("usage").at("completion_tokens").as_int64(), 2048 - 3);
  EXPECT_EQ(choice(all).at("finish_reason").as_string(), "length");
}

TEST_F(Completions, PromptsInAllFourForms) {
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":"one"})").at("choices").as_array().size(), 1u);
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":["one","two","three"]})").at("choices").as_array().size(), 3u);
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":[5,6,7.0]})").at("usage").at("prompt_tokens").as_int64(), 3);
  const json::object lists = bench.ok("/v1/completions", R"({"prompt":[[5,6],[7]],"n":2,"temperature":1,"seed":3})");
  ASSERT_EQ(lists.at("choices").as_array().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(choice(lists, i).at("index").as_int64(), static_cast<std::int64_t>(i));
  EXPECT_EQ(lists.at("usage").at("prompt_tokens").as_int64(), 3) << "a prompt counts once, whatever n is";
}

TEST_F(Completions, ChildrenOfASeedGetSeedPlusIndex) {
  bench.script->repeat(bench.encode(" a b c d e f g h"));
  bench.script->rotate_by_seed();
  const json::object two = bench.ok("/v1/completions", R"({"prompt":"x","n":2,"temperature":1,"seed":1,"max_tokens":3})");
  const json::object second = bench.ok("/v1/completions", R"({"prompt":"x","temperature":1,"seed":2,"max_tokens":3})");
  EXPECT_NE(text_of(two, 0), text_of(two, 1));
  EXPECT_EQ(text_of(two, 1), text_of(second));
}

TEST_F(Completions, StopStringsEndTheTextAcrossTokensAndFinishTheRequest) {
  bench.script->repeat(bench.encode(said));
  const json::object answer = bench.ok("/v1/completions", R"({"prompt":"x","max_tokens":500,"stop":["zzz","les. ##"]})");
  EXPECT_EQ(text_of(answer), " She has 12 app");
  EXPECT_EQ(choice(answer).at("finish_reason").as_string(), "stop");
  EXPECT_EQ(choice(answer).at("stop_reason").as_string(), "les. ##");
  EXPECT_LT(answer.at("usage").at("completion_tokens").as_int64(), 40);
  const json::object with = bench.ok("/v1/completions", R"({"prompt":"x","max_tokens":500,"stop":"les. ##","include_stop_str_in_output":true})");
  EXPECT_EQ(text_of(with), " She has 12 apples. ##");
  EXPECT_EQ(bench.mailbox.num_requests(), 0u);
}

TEST_F(Completions, MinTokensHoldsStopStringsOff) {
  const auto ids = bench.encode(said);
  const std::string stop = " has";
  std::size_t covering = 0;  // tokens until the stop string is there
  while (bench.decode({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(covering)}).find(stop) == std::string::npos) ++covering;
  const auto with_min = [&](std::size_t min) {
    return text_of(bench.ok("/v1/completions", R"({"prompt":"x","max_tokens":100,"stop":" has","min_tokens":)" + std::to_string(min) + "}"));
  };
  EXPECT_EQ(with_min(0), " She");
  EXPECT_EQ(with_min(covering - 1), " She");
  EXPECT_EQ(with_min(covering), said);
}

TEST_F(Completions, StopTokenIdsSayWhichOneAndStayOutOfTheText) {
  const auto ids = bench.encode(said);
  const std::string body = R"({"prompt":"x","max_tokens":100,"stop_token_ids":[)" + std::to_string(ids[3]) + "]";
  const json::object answer = bench.ok("/v1/completions", body + "}");
  std::size_t first = 0;
  while (ids[first] != ids[3]) ++first;
  EXPECT_EQ(text_of(answer), bench.decode({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first)}));
  EXPECT_EQ(choice(answer).at("stop_reason").as_int64(), ids[3]);
  EXPECT_EQ(answer.at("usage").at("completion_tokens").as_int64(), static_cast<std::int64_t>(first) + 1);
  const json::object with = bench.ok("/v1/completions", body + R"(,"include_stop_str_in_output":true})");
  EXPECT_EQ(text_of(with), bench.decode({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first) + 1}));
}

TEST_F(Completions, EchoGivesThePromptAsWrittenOrDecoded) {
  EXPECT_EQ(text_of(bench.ok("/v1/completions", R"({"prompt":"Tom  buys","max_tokens":50,"echo":true})")), "Tom  buys" + said);
  const auto ids = bench.encode("Tom buys");
  json::array list(ids.begin(), ids.end());
  EXPECT_EQ(text_of(bench.ok("/v1/completions", R"({"prompt":)" + json::serialize(list) + R"(,"max_tokens":50,"echo":true})")), "Tom buys" + said);
  const json::object only = bench.ok("/v1/completions", R"({"prompt":"Tom buys","max_tokens":0,"echo":true,"logprobs":1})");
  EXPECT_EQ(text_of(only), "Tom buys");
  EXPECT_EQ(choice(only).at("logprobs").at("tokens").as_array().size(), ids.size());
  EXPECT_EQ(only.at("usage").at("completion_tokens").as_int64(), 0);
}

// What lm_eval's log-likelihood reads, and nothing but what it reads: the arg-max test must be exact on the printed numbers.
TEST_F(Completions, LoglikelihoodReadsArgmaxExactly) {
  const auto ids = bench.encode("Question: Tom has 3 apples and buys 4 more. How many apples does Tom have now?");
  json::array list(ids.begin(), ids.end());
  for (const int top : {0, 1, 2, 5, 20}) {
    const json::object answer = bench.ok("/v1/completions", R"({"model":"gsm-tiny","prompt":)" + json::serialize(list) + R"(,"temperature":0,"max_tokens":1,"seed":1234,"echo":true,"logprobs":)" + std::to_string(top) + "}");
    const json::object& logprobs = choice(answer).at("logprobs").as_object();
    const json::array& values = logprobs.at("token_logprobs").as_array();
    const json::array& tops = logprobs.at("top_logprobs").as_array();
    ASSERT_EQ(values.size(), ids.size() + 1);
    ASSERT_EQ(tops.size(), values.size());
    EXPECT_TRUE(values[0].is_null());
    EXPECT_TRUE(tops[0].is_null());
    for (std::size_t p = 1; p < values.size(); ++p) {
      double best = -1e9;
      for (const auto& entry : tops[p].as_object()) best = std::max(best, entry.value().as_double());
      EXPECT_LE(tops[p].as_object().size(), static_cast<std::size_t>(top) + 1);
      const TokenId token = p < ids.size() ? ids[p] : bench.encode(said)[0];
      const bool greedy = values[p].as_double() == best;
      const bool want_greedy = top == 0 || Script::is_argmax(static_cast<std::int32_t>(p), token);
      EXPECT_EQ(greedy, want_greedy) << "place " << p << " top " << top;
      EXPECT_GE(values[p].as_double(), -9999.0);
    }
    EXPECT_EQ(logprobs.at("text_offset").as_array()[0].as_int64(), 0);
    std::string joined;
    for (const auto& token : logprobs.at("tokens").as_array()) joined += token.as_string();
    EXPECT_EQ(joined, text_of(answer));
  }
}

TEST_F(Completions, ScoreFormsAndTokenIds) {
  const json::object answer = bench.ok("/v1/completions", R"({"prompt":"Tom has","max_tokens":4,"logprobs":3,"prompt_logprobs":2,"return_token_ids":true,"return_tokens_as_token_ids":true})");
  const json::object& c = choice(answer);
  const auto ids = bench.encode(said);
  ASSERT_EQ(c.at("token_ids").as_array().size(), 4u);
  EXPECT_EQ(c.at("token_ids").as_array()[2].as_int64(), ids[2]);
  EXPECT_EQ(c.at("prompt_token_ids").as_array().size(), bench.encode("Tom has").size());
  EXPECT_EQ(c.at("logprobs").at("tokens").as_array()[0].as_string(), "token_id:" + std::to_string(ids[0]));
  const json::array& prompt = c.at("prompt_logprobs").as_array();
  ASSERT_EQ(prompt.size(), bench.encode("Tom has").size());
  EXPECT_TRUE(prompt[0].is_null());
  const json::object& entry = prompt[1].as_object().at(std::to_string(bench.encode("Tom has")[1])).as_object();
  EXPECT_TRUE(entry.contains("rank") && entry.contains("decoded_token") && entry.contains("logprob"));
}

TEST_F(Completions, TruncationKeepsTheLastTokens) {
  const json::object answer = bench.ok("/v1/completions", R"({"prompt":[5,6,7,8,9],"truncate_prompt_tokens":2,"return_token_ids":true,"max_tokens":1})");
  EXPECT_EQ(json::serialize(choice(answer).at("prompt_token_ids")), "[8,9]");
}

TEST_F(Completions, IdsFollowTheRequestId) {
  EXPECT_EQ(bench.ok("/v1/completions", R"({"prompt":"a","request_id":"mine-7"})").at("id").as_string(), "cmpl-mine-7");
  EXPECT_EQ(bench.refused("/v1/completions", R"({"prompt":"a","request_id":"two words"})").at("param").as_string(), "request_id");
}

TEST_F(Completions, CachedTokensAreTold) {
  BenchOptions options;
  options.settings.enable_prompt_tokens_details = true;
  ApiBench other(options);
  other.script->repeat(other.encode(said));
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += " apples";
  const std::string body = R"({"prompt":")" + prompt + R"(","max_tokens":60,"stop":"####"})";
  EXPECT_EQ(other.ok("/v1/completions", body).at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 0);
  EXPECT_GE(other.ok("/v1/completions", body).at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 16);
}

TEST_F(Completions, AFailedStepIsA500AndTheNextRequestWorks) {
  bench.script->fail_next_step();
  const json::object error = bench.refused("/v1/completions", R"({"prompt":"a"})", 500);
  EXPECT_EQ(error.at("type").as_string(), "InternalServerError");
  EXPECT_EQ(text_of(bench.ok("/v1/completions", R"({"prompt":"a","max_tokens":100})")), said);
}

// The metrics say how answers ended in the words of the answers themselves.
TEST(CompletionsEnds, AreCountedAsTheRepliesSay) {
  ApiBench bench;
  bench.script->repeat(bench.encode(" one two three"));
  const auto counted = [&bench](const std::string& reason) {
    const std::string text = bench.metrics->render(), line = "vllm:request_success_total{engine=\"0\",finished_reason=\"" + reason + "\",model_name=\"gsm-tiny\"} ";
    const std::size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << reason;
    return std::stod(text.substr(at + line.size()));
  };
  const std::size_t length = bench.encode(" one two three").size();
  int stops = 0, lengths = 0;
  // The stop string ends before, with and never by the last token of the length; streamed or whole; echo alone drops its one token.
  for (const char* stream : {"false", "true"}) {
    for (std::size_t max_tokens = 1; max_tokens <= length + 2; ++max_tokens) {
      for (const char* stop : {"one", "two", "three", "never"}) {
        const Reply reply = bench.call("/v1/completions", R"({"prompt":"a","temperature":0,"max_tokens":)" + std::to_string(max_tokens) + R"(,"stream":)" + stream + R"(,"stop":")" + stop + "\"}");
        ASSERT_EQ(reply.status, 200) << reply.body;
        const bool stopped = reply.body.find(R"("finish_reason":"stop")") != std::string::npos;
        ++(stopped ? stops : lengths);
      }
    }
  }
  EXPECT_GT(stops, 0);
  EXPECT_GT(lengths, 0);
  bench.script->play({});  // the model ends at once
  EXPECT_NE(bench.call("/v1/completions", R"({"prompt":[5,6],"max_tokens":0,"echo":true})").body.find(R"("finish_reason":"length")"), std::string::npos);
  ++lengths;
  EXPECT_NE(bench.call("/v1/completions", R"({"prompt":[5,6],"max_tokens":3})").body.find(R"("finish_reason":"stop")"), std::string::npos);
  ++stops;
  bench.engine->stop(std::chrono::seconds(5));  // what was said is heard
  EXPECT_EQ(counted("stop"), stops);
  EXPECT_EQ(counted("length"), lengths);
  EXPECT_EQ(counted("abort") + counted("error"), 0);
}

}  // namespace
}  // namespace quire::api::test
