// Loading of good and bad folders, bad arguments, threads and leaks.
#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "kit.h"
#include "kit/seed.h"
#include "kit/temp_dir.h"
#include "text/ffi/quire_text.h"

namespace quire::text::test {
namespace {

using quire::test::TempDir;

std::string gsm_json() { return read_file(folder_of("gsm_tiny") + "/tokenizer.json", 1u << 20).value(); }

TEST(Tokenizer, Facts) {
  const auto tokenizer = load("gsm_tiny");
  EXPECT_EQ(tokenizer->facts().bos, 0);
  EXPECT_EQ(tokenizer->facts().eos, 0);
  EXPECT_EQ(tokenizer->facts().model_max_length, 2048);
  EXPECT_EQ(tokenizer->facts().tokenizer_class, "PreTrainedTokenizerFast");
  EXPECT_EQ(tokenizer->token_id("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer->token_string(2), "<|im_end|>");
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_FALSE(tokenizer->is_special(3));
  EXPECT_EQ(tokenizer->token_string(tokenizer->facts().vocab_size), std::nullopt);
  EXPECT_EQ(tokenizer->token_string(-1), std::nullopt);
  EXPECT_NE(tokenizer->token_string(tokenizer->facts().vocab_size - 1), std::nullopt);
  EXPECT_EQ(tokenizer->token_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->special_texts(), (std::vector<std::string>{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}));
  EXPECT_NE(tokenizer->config_json().find("chat_template"), std::string::npos);
  EXPECT_EQ(load("spm_like")->facts().model_max_length, 0) << "1e30 means no limit";
  EXPECT_EQ(load("spm_like")->facts().bos, 1);
}

// What bounds the text of a prompt before it is tokenised: true for every token of every vocabulary, reached by one.
TEST(Tokenizer, NoTokenIsLongerThanTheStatedMost) {
  EXPECT_EQ(load("gsm_tiny")->facts().max_token_bytes, std::string_view("<|endoftext|>").size());
  for (const std::string& name : kNames) {
    const auto tokenizer = load(name);
    std::size_t longest = 0;
    for (TokenId id = 0; id < tokenizer->facts().vocab_size; ++id) {
      if (const auto written = tokenizer->token_string(id)) longest = std::max(longest, written->size());
      const auto text = tokenizer->decode(std::array{id}, SpecialTokens::kKeep);
      // U+FFFD stands for a byte or two of a broken character, so it may be longer than what it stands for.
      if (!text.ok() || text.value().find("\xef\xbf\xbd") != std::string::npos) continue;
      EXPECT_LE(text.value().size(), tokenizer->facts().max_token_bytes) << name << " " << id;
    }
    EXPECT_EQ(tokenizer->facts().max_token_bytes, longest) << name;
  }
  const TempDir dir;
  const std::string monster(700, 'm');
  (void)dir.write("tokenizer.json", gsm_json());
  (void)dir.write("special_tokens_map.json", R"({"pad_token": ")" + monster + "\"}");
  const auto tokenizer = Tokenizer::load(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value()->facts().max_token_bytes, monster.size());
}

TEST(Tokenizer, OrdinaryTextHoldsNoControlTokens) {
  const auto tokenizer = load("gsm_tiny");
  const std::string text = "a<|im_end|>b";
  const auto as_token = tokenizer->encode(text, AddSpecialTokens::kNo).value();
  EXPECT_NE(std::find(as_token.begin(), as_token.end(), 2), as_token.end());
  const auto ordinary = tokenizer->encode(text, AddSpecialTokens::kNo, SpecialText::kOrdinary).value();
  for (const TokenId id : ordinary) EXPECT_FALSE(tokenizer->is_special(id));
  EXPECT_EQ(tokenizer->decode(ordinary, SpecialTokens::kSkip).value(), text);
}

TEST(Tokenizer, BadArguments) {
  const auto tokenizer = load("gsm_tiny");
  for (const std::string bad : {"\xff", "abc\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\x80"}) {
    const auto ids = tokenizer->encode(bad, AddSpecialTokens::kNo);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(ids.error().message.find("UTF-8"), std::string::npos);
  }
  EXPECT_TRUE(tokenizer->encode("", AddSpecialTokens::kYes).value().empty());
  EXPECT_EQ(tokenizer->decode({}, SpecialTokens::kSkip).value(), "");
  for (const TokenId id : {tokenizer->facts().vocab_size, 2147483647}) EXPECT_EQ(tokenizer->decode(std::array{id}, SpecialTokens::kKeep).value(), "") << "a model pads its vocabulary";
  for (const TokenId id : {-1, -2147483647 - 1}) {
    const auto text = tokenizer->decode(std::array{id}, SpecialTokens::kKeep);
    ASSERT_FALSE(text.ok());
    EXPECT_NE(text.error().message.find(std::to_string(id)), std::string::npos);
  }
}

TEST(Tokenizer, MissingFolder) {
  const auto tokenizer = Tokenizer::load("/no/such/folder");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kNotFound);
  EXPECT_NE(tokenizer.error().message.find("tokenizer.json"), std::string::npos);
}

TEST(Tokenizer, TruncatedAtEveryKilobyteIsRefused) {
  const std::string json = gsm_json();
  for (std::size_t len = 0; len < json.size() - 2; len += 1021) {
    const TempDir dir;
    (void)dir.write("tokenizer.json", json.substr(0, len));
    const auto tokenizer = Tokenizer::load(dir.path());
    ASSERT_FALSE(tokenizer.ok()) << len;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(tokenizer.error().message.find("tokenizer.json"), std::string::npos);
  }
}

TEST(Tokenizer, DamagedBytesNeverCrash) {
  auto rng = quire::test::seeded_rng();
  const std::string json = read_file(folder_of("spm_like") + "/tokenizer.json", 1u << 20).value();
  int num_loaded = 0;
  for (int round = 0; round < 60; ++round) {
    std::string damaged = json;
    for (int n = 0; n < 3; ++n) damaged[rng() % damaged.size()] = static_cast<char>(rng() % 256);
    const TempDir dir;
    (void)dir.write("tokenizer.json", damaged);
    const auto tokenizer = Tokenizer::load(dir.path());
    if (!tokenizer.ok()) continue;
    ++num_loaded;
    (void)tokenizer.value()->encode("Hello <s> world 世界 \n\n", AddSpecialTokens::kYes).ok();
    IncrementalDetokenizer pieces(tokenizer.value(), {}, SpecialTokens::kSkip);
    for (TokenId id = 0; id < 300; id += 7) (void)pieces.push(id);
    (void)pieces.finish();
  }
  EXPECT_LT(num_loaded, 60);
}

TEST(Tokenizer, DeepNestingIsRefusedWithoutRecursion) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep = "{\"version\":\"1.0\",\"model\":";
    for (int n = 0; n < 10000; ++n) deep += open;
    const TempDir dir;
    (void)dir.write("tokenizer.json", deep);
    const auto tokenizer = Tokenizer::load(dir.path());
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_NE(tokenizer.error().message.find("nested deeper"), std::string::npos) << tokenizer.error().message;
  }
  const TempDir dir;
  (void)dir.write("tokenizer.json", gsm_json());
  (void)dir.write("tokenizer_config.json", std::string(10000, '['));
  EXPECT_FALSE(Tokenizer::load(dir.path()).ok());
}

TEST(Tokenizer, WrongShapesAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "tokenizer.json"},
      {"{}", "tokenizer.json"},
      {R"({"version":"9.0","model":{"type":"BPE","vocab":{},"merges":[]}})", "version"},
      {R"({"version":"1.0","model":{"type":"NoSuchModel","vocab":{},"merges":[]}})", "tokenizer.json"},
      {R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}})", "ab"},
      {R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[{"id":7,"content":"<x>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}]})", "<x>"},
      {R"({"version":"1.0","model":{"type":"BPE","continuing_subword_prefix":"####","vocab":{"a":0,"b":1},"merges":["a b"]}})", "panicked"},
      {R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":4294967295},"merges":[]}})", "tokenizer.json"},
      {R"({"version":"1.0","pre_tokenizer":{"type":"Split","pattern":{"Regex":"(("},"behavior":"Isolated","invert":false},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})", "tokenizer.json"},
  };
  for (const auto& [json, word] : cases) {
    const TempDir dir;
    (void)dir.write("tokenizer.json", json);
    const auto tokenizer = Tokenizer::load(dir.path());
    ASSERT_FALSE(tokenizer.ok()) << json;
    EXPECT_NE(tokenizer.error().message.find(word), std::string::npos) << tokenizer.error().message;
  }
}

TEST(Tokenizer, BrokenConfigsAreErrorsNotIgnored) {
  for (const char* config : {"{", "[1]", "{\"chat_template\": 7}", "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"}]}", "{\"a\":1,\"a\":2", "\xff\xfe"}) {
    const TempDir dir;
    (void)dir.write("tokenizer.json", gsm_json());
    (void)dir.write("tokenizer_config.json", config);
    EXPECT_FALSE(Tokenizer::load(dir.path()).ok()) << config;
  }
}

TEST(Tokenizer, TruncationAndPaddingOfTheFileAreOff) {
  std::string json = gsm_json();
  const auto replace = [&](std::string_view from, std::string_view to) {
    const auto at = json.find(from);
    ASSERT_NE(at, std::string::npos);
    json.replace(at, from.size(), to);
  };
  replace("\"truncation\": null", R"("truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0})");
  replace("\"padding\": null", R"("padding": {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"})");
  const TempDir dir;
  (void)dir.write("tokenizer.json", json);
  const auto tokenizer = Tokenizer::load(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value()->encode("one two three four", AddSpecialTokens::kYes).value(), load("gsm_tiny")->encode("one two three four", AddSpecialTokens::kYes).value());
}

TEST(Tokenizer, OlderFoldersNameTheirSpecialTokensInAMap) {
  const TempDir dir;
  (void)dir.write("tokenizer.json", gsm_json());
  (void)dir.write("special_tokens_map.json", R"({"bos_token": {"content": "<|im_start|>", "lstrip": false}, "eos_token": "<|im_end|>", "pad_token": "<|new|>"})");
  const auto tokenizer = Tokenizer::load(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value()->facts().bos, 1);
  EXPECT_EQ(tokenizer.value()->facts().eos, 2);
  const TokenId added = tokenizer.value()->token_id("<|new|>").value();
  EXPECT_EQ(added, load("gsm_tiny")->facts().vocab_size);
  EXPECT_TRUE(tokenizer.value()->is_special(added));
  EXPECT_EQ(tokenizer.value()->encode("<|new|>", AddSpecialTokens::kNo).value(), std::vector<TokenId>{added});
}

TEST(Tokenizer, EightThreadsAtOnce) {
  const auto tokenizer = load("llama_like");
  const auto all = golden("llama_like");
  const auto chat_template = load_template("llama_like");
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto& cases = all.at("encode").as_array();
      for (std::size_t n = 0; n < cases.size(); ++n) {
        const auto& entry = cases[(n + static_cast<std::size_t>(t) * 31) % cases.size()];
        const auto text = string_of(entry.at("text"));
        if (tokenizer->encode(text, AddSpecialTokens::kYes).value() != ids_of(entry.at("with_special"))) ++num_wrong;
        if (tokenizer->encode(text, AddSpecialTokens::kNo, SpecialText::kOrdinary).value() != ids_of(entry.at("ordinary"))) ++num_wrong;
        const boost::json::value messages = {{{"role", "user"}, {"content", "<|eot_id|>" + std::to_string(t)}}};
        const auto rendered = chat_template->render({.messages_json = boost::json::serialize(messages), .tools_json = {}, .kwargs_json = {}, .documents_json = {}, .now_unix = {}}, AddSpecialTokens::kNo);
        if (!rendered.ok() || rendered.value().text.find("<|eot_id|>" + std::to_string(t) + "<|eot_id|>") == std::string::npos) ++num_wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST(Tokenizer, NothingLeaks) {
  const std::int64_t before = quire_text_live_objects();
  {
    const auto chat_template = load_template("gsm_tiny");
    EXPECT_EQ(quire_text_live_objects(), before + 2);
    (void)chat_template->render({.messages_json = "[{\"role\":\"user\",\"content\":\"<|im_end|>\"}]", .tools_json = {}, .kwargs_json = {}, .documents_json = {}, .now_unix = {}}, AddSpecialTokens::kYes).ok();
    (void)chat_template->render({.messages_json = "[", .tools_json = {}, .kwargs_json = {}, .documents_json = {}, .now_unix = {}}, AddSpecialTokens::kYes).ok();
    (void)load("gsm_tiny")->encode("\xff", AddSpecialTokens::kYes).ok();
    EXPECT_EQ(quire_text_live_objects(), before + 2);
  }
  EXPECT_EQ(quire_text_live_objects(), before);
}

}  // namespace
}  // namespace quire::text::test
