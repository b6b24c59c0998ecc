#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/api_bench.h"
#include "api/text_routes.h"
#include "page/page.h"

namespace quire::api::test {
namespace {

namespace json = boost::json;

TEST(TextRoutes, TokenizeAndBack) {
  ApiBench bench;
  const json::object answer = bench.ok("/tokenize", R"({"model":"gsm-tiny","prompt":"Tom buys 3 apples.","add_special_tokens":false,"return_token_strs":true})");
  const auto ids = bench.encode("Tom buys 3 apples.");
  EXPECT_EQ(answer.at("count").as_int64(), static_cast<std::int64_t>(ids.size()));
  EXPECT_EQ(answer.at("max_model_len").as_int64(), 2048);
  EXPECT_EQ(json::serialize(answer.at("tokens")), json::serialize(json::array(ids.begin(), ids.end())));
  EXPECT_EQ(answer.at("token_strs").as_array().size(), ids.size());
  EXPECT_TRUE(bench.ok("/tokenize", R"({"prompt":"a"})").at("token_strs").is_null());
  EXPECT_EQ(bench.ok("/detokenize", R"({"tokens":)" + json::serialize(answer.at("tokens")) + "}").at("prompt").as_string(), "Tom buys 3 apples.");
  EXPECT_EQ(bench.ok("/detokenize", R"({"tokens":[]})").at("prompt").as_string(), "");
}

TEST(TextRoutes, TokenizeChat) {
  ApiBench bench;
  const json::object answer = bench.ok("/tokenize", R"({"messages":[{"role":"user","content":"q"}]})");
  const auto ids = bench.tokenizer->encode("<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n", text::AddSpecialTokens::kNo).value();
  EXPECT_EQ(json::serialize(answer.at("tokens")), json::serialize(json::array(ids.begin(), ids.end())));
  bench.refused("/tokenize", R"({"messages":[{"role":"user","content":"q"}],"add_generation_prompt":true,"continue_final_message":true})");
  bench.refused("/tokenize", "{}");
  bench.refused("/tokenize", R"({"prompt":5})");
}

TEST(TextRoutes, DetokenizeRefusesIdsOutsideTheVocabulary) {
  ApiBench bench;
  for (const char* ids : {"[-1]", "[543000]", "[1e300]", "[9223372036854775807]", "[\"a\"]", "[1.5]", "5"}) bench.refused("/detokenize", std::string(R"({"tokens":)") + ids + "}");
  bench.refused("/detokenize", "{}");
}

// One rule for prompts and /detokenize: ids below the model's vocabulary. What the tokenizer has no token for has no text.
TEST(TextRoutes, IdsThatPadTheModelsVocabularyHaveNoText) {
  ApiBench bench;
  const std::int32_t known = bench.tokenizer->facts().vocab_size, all = bench.model->vocab_size;
  ASSERT_LT(known, all);
  const auto ids = [](std::int32_t last) { return "[5," + std::to_string(last) + "]"; };
  EXPECT_EQ(bench.ok("/detokenize", R"({"tokens":)" + ids(all - 1) + "}").at("prompt").as_string(), bench.decode({5}));
  EXPECT_EQ(bench.ok("/detokenize", R"({"tokens":)" + ids(known) + "}").at("prompt").as_string(), bench.decode({5}));
  const json::object echoed = bench.ok("/v1/completions", R"({"echo":true,"max_tokens":0,"prompt":)" + ids(all - 1) + "}");
  EXPECT_EQ(echoed.at("choices").as_array()[0].as_object().at("text").as_string(), bench.decode({5}));
  for (const char* request : {R"({"tokens":)", R"({"prompt":)"}) {
    const std::string path = std::string_view(request).find("tokens") != std::string_view::npos ? "/detokenize" : "/v1/completions";
    const std::string message(bench.refused(path, request + ids(all) + "}").at("message").as_string());
    EXPECT_NE(message.find("token id 576 is outside the vocabulary (0 to 575)"), std::string::npos) << message;
  }
}

TEST(TextRoutes, TokenizerInfoOnlyWithTheFlag) {
  ApiBench closed;
  closed.refused("/tokenizer_info", "", 404);
  BenchOptions options;
  options.settings.enable_tokenizer_info = true;
  ApiBench bench(options);
  const json::object facts = bench.ok("/tokenizer_info", "");
  EXPECT_EQ(facts.at("eos_token").as_string(), "<|endoftext|>");
  EXPECT_NE(std::string(facts.at("chat_template").as_string()).find("im_start"), std::string::npos);
  EXPECT_TRUE(facts.contains("tokenizer_class"));
}

TEST(TextRoutes, ThePageNeedsNoModelAndMayTalkToThisServerAlone) {
  Service service(config::ApiSettings{.served_names = {"gsm-tiny"}}, nullptr, nullptr);
  for (const page::File& file : page::files()) {
    const RouteMatch match = find_route("GET", file.path);
    ASSERT_TRUE(match.method_allowed) << file.path;
    EXPECT_TRUE(match.route->open) << file.path;
    const Opening opening = service.open(Call{.route = match.route});
    const auto* reply = std::get_if<Reply>(&opening);
    ASSERT_NE(reply, nullptr);
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->content_type, file.content_type);
    EXPECT_GT(reply->body.size(), 1000u) << file.path;
    EXPECT_EQ(reply->body.find("http://") == std::string::npos, file.path != "/quire/page.js") << file.path << ": only the namespace of SVG is an address";
    EXPECT_EQ(reply->body.find("https://"), std::string::npos) << file.path;
    EXPECT_NE(std::ranges::find(reply->headers, std::pair<std::string, std::string>("Content-Security-Policy", page::kContentSecurityPolicy)), reply->headers.end());
  }
}

TEST(TextRoutes, TextsAreBoundedBeforeTheyAreRead) {
  ApiBench bench;
  const std::string text(std::size_t{5} << 20, 'a');
  for (const auto& [path, body] : {std::pair<std::string, std::string>{"/tokenize", R"({"prompt":")" + text + R"("})"},
                                  {"/tokenize", R"({"messages":[{"role":"user","content":")" + text + R"("}]})"},
                                  {"/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + text + R"("}]})"},
                                  {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"x":")" + text + R"("}})"},
                                  {"/tokenize", R"({"messages":[{"role":"user","content":"a"}],"tool_choice":"none","tools":[{"type":"function","function":{"name":")" + text + R"("}}]})"}}) {
    const json::object error = bench.refused(path, body, 400);
    EXPECT_NE(std::string(error.at("message").as_string()).find("the limit is 4194304"), std::string::npos) << path << ": " << std::string(error.at("message").as_string()).substr(0, 200);
  }
}

TEST(TextRoutes, DetokenizeIsBounded) {
  ApiBench bench;
  const auto list = [](std::size_t n) {
    std::string out = R"({"tokens":[5)";
    for (std::size_t i = 1; i < n; ++i) out += ",5";
    return out + "]}";
  };
  EXPECT_EQ(bench.call("/detokenize", list(kMaxDetokenizedTokens)).status, 200);
  const json::object error = bench.refused("/detokenize", list(kMaxDetokenizedTokens + 1));
  EXPECT_EQ(error.at("message").as_string(), "tokens: 1048577 token ids; the limit is 1048576");
  // Many more are not even parsed.
  EXPECT_NE(std::string(bench.refused("/detokenize", list(5u << 20), 413).at("message").as_string()).find("4194304 values"), std::string::npos);
}

TEST(TextRoutes, ModelsListsEveryName) {
  ApiBench bench;
  const json::object answer = bench.ok("/v1/models", "");
  const json::array& list = answer.at("data").as_array();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].at("id").as_string(), "second-name");
  EXPECT_EQ(list[0].at("max_model_len").as_int64(), 2048);
  EXPECT_EQ(list[0].at("object").as_string(), "model");
  for (const json::value& card : list) {
    EXPECT_EQ(json::serialize(card.at("relaxed")), R"(["kv-scales"])");
    EXPECT_EQ(json::serialize(card.at("warnings")), R"(["answers \"may\" be worse"])");
  }
}

TEST(TextRoutes, ScalesAreTheLoadedModelsLedger) {
  ApiBench bench;
  EXPECT_EQ(json::serialize(bench.ok("/quire/scales", "")), bench.model->kv_scales_json);
  EXPECT_EQ(bench.ok("/quire/scales", "").at("source").as_string(), "checkpoint");
}

TEST(TextRoutes, NotReadyIsA503WithTheProgress) {
  BenchOptions options;
  options.attach = false;
  ApiBench bench(options);
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/v1/models", "/quire/scales"}) {
    const json::object error = bench.refused(path, R"({"prompt":"a"})", 503);
    EXPECT_NE(std::string(error.at("message").as_string()).find("loading weights 43 %"), std::string::npos) << path;
  }
  EXPECT_EQ(bench.call("/health", "").status, 503);
  EXPECT_EQ(bench.call("/ready", "").status, 503);
  EXPECT_EQ(bench.call("/ping", "").status, 503);
  EXPECT_EQ(bench.call("/version", "").status, 200);
  const Reply metrics = bench.call("/metrics", "");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_NE(metrics.body.find("\nquire:log_lines_lost{"), std::string::npos);
  bench.attach();
  EXPECT_EQ(bench.call("/health", "").status, 200);
  EXPECT_EQ(bench.call("/health", "").body, "");
  EXPECT_EQ(bench.call("/ready", "").status, 200);
  bench.service->set_draining();
  EXPECT_EQ(bench.call("/health", "").status, 200) << "still alive";
  EXPECT_EQ(bench.call("/ready", "").status, 503);
  bench.refused("/v1/completions", R"({"prompt":"a"})", 503);
}

}  // namespace
}  // namespace quire::api::test
