// Tokenizers built from GGUF metadata: against llama.cpp's ids and Jinja2's chats of SmolLM2, by hand on small vocabularies, and what is refused.
#include "text/gguf_tokenizer.h"

#include <functional>

#include "kit.h"
#include "kit/gguf_writer.h"
#include "kit/temp_dir.h"
#include "text/gguf_vocabulary.h"

namespace quire::text {
namespace {

using ::quire::test::GgufWriter;
using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::ids_of;
using test::string_of;

constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kByte = 6;

// A vocabulary under construction.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  void add(const std::string& token, std::int32_t type = kNormal, float score = 0.0f) {
    tokens.push_back(token);
    types.push_back(type);
    scores.push_back(score);
  }
  void write(GgufWriter& w) const { w.texts("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types).f32s("tokenizer.ggml.scores", scores); }
};

// Byte-level letters a to e, two merges, a control token and a user-defined one.
GgufWriter byte_level(const std::string& pre) {
  Vocabulary v;
  for (const char* token : {"a", "b", "c", "d", "e", "ab", "abc"}) v.add(token);
  v.add("<|end|>", kControl);
  v.add("dd", kUser);
  GgufWriter w;
  w.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.merges", {"a b", "ab c"});
  if (!pre.empty()) w.text("tokenizer.ggml.pre", pre);
  v.write(w);
  return w;
}

// SentencePiece: all bytes, some letters, and words whose scores say which join wins.
GgufWriter sentence_piece() {
  Vocabulary v;
  v.add("<unk>", kUnknown);
  v.add("<s>", kControl);
  v.add("</s>", kControl);
  constexpr char kHex[] = "0123456789ABCDEF";
  for (std::size_t b = 0; b < 256; ++b) v.add(std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">", kByte);  // ids 3 to 258
  float score = -1.0f;
  for (const char* piece : {"he", "ll", "llo", "hello", "\xe2\x96\x81hello", "\xe2\x96\x81", "h", "e", "l", "o"}) v.add(piece, kNormal, score--);  // ids 259 to 268
  v.add("\n\n", kUser);  // id 269
  GgufWriter w;
  w.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama").u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  v.write(w);
  return w;
}

Result<std::shared_ptr<const Tokenizer>> load(const GgufWriter& w) {
  const TempDir dir;
  return Tokenizer::load(dir.write("m.gguf", w.file()));
}

std::string error_of(const GgufWriter& w) {
  const auto tokenizer = load(w);
  return tokenizer.ok() ? "accepted" : tokenizer.error().message;
}

std::vector<TokenId> encoded(const Tokenizer& tokenizer, const std::string& text, AddSpecialTokens add = AddSpecialTokens::kNo, SpecialText special = SpecialText::kToken) {
  auto ids = tokenizer.encode(text, add, special);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  return std::move(ids).value();
}

// `pattern` with `text` wherever `place` stands.
std::string replaced(std::string pattern, const std::string& place, const std::string& text) {
  for (std::size_t at = pattern.find(place); at != std::string::npos; at = pattern.find(place, at + text.size())) pattern.replace(at, place.size(), text);
  return pattern;
}

class SmolLm2 : public ::testing::Test {
 protected:
  std::string path_ = test::kGoldens + "/smollm2.gguf";
  boost::json::value golden_ = test::golden("smollm2");
};

TEST_F(SmolLm2, IdsAreThoseOfLlamaCpp) {
  const auto tokenizer = Tokenizer::load(path_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto& texts = golden_.at("texts").as_array();
  EXPECT_EQ(texts.size(), 500u);
  for (const auto& entry : texts) {
    const std::string text = string_of(entry.at(0));
    EXPECT_EQ(encoded(*tokenizer.value(), text, AddSpecialTokens::kNo, SpecialText::kOrdinary), ids_of(entry.at(1))) << shown_text(text);
  }
}

TEST_F(SmolLm2, RenderedChatsAreThoseOfJinja) {
  const auto tokenizer = Tokenizer::load(path_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto chat = ChatTemplate::load(path_, tokenizer.value(), std::nullopt);
  ASSERT_TRUE(chat.ok() && chat.value() != nullptr);
  const auto& chats = golden_.at("chats").as_array();
  EXPECT_GE(chats.size(), 5u);
  for (const auto& entry : chats) {
    ChatTemplateInput input;
    input.messages_json = boost::json::serialize(entry.at(0));
    const auto rendered = chat.value()->render(input, AddSpecialTokens::kNo);
    ASSERT_TRUE(rendered.ok()) << rendered.error().message;
    EXPECT_EQ(rendered->text, string_of(entry.at(1)));
    EXPECT_EQ(rendered->tokens, encoded(*tokenizer.value(), rendered->text));
  }
}

// The golden holds what llama.cpp's server rendered of four conversations with a mark where the text goes; its maker checked that the server
// renders each of the 500 texts as the mark replaced.
TEST_F(SmolLm2, RenderedChatsAreThoseOfLlamaCpp) {
  const auto tokenizer = Tokenizer::load(path_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto chat = ChatTemplate::load(path_, tokenizer.value(), std::nullopt);
  ASSERT_TRUE(chat.ok() && chat.value() != nullptr);
  const std::string place = string_of(golden_.at("place"));
  const auto& patterns = golden_.at("llama_cpp_chats").as_array();
  EXPECT_EQ(patterns.size(), 4u);
  std::size_t compared = 0;
  for (const auto& pattern : patterns) {
    for (const auto& entry : golden_.at("texts").as_array()) {
      const std::string text = string_of(entry.at(0));
      boost::json::array messages = pattern.at(0).as_array();
      for (auto& message : messages) message.at("content") = replaced(string_of(message.at("content")), place, text);
      ChatTemplateInput input;
      input.messages_json = boost::json::serialize(messages);
      const auto rendered = chat.value()->render(input, AddSpecialTokens::kNo);
      ASSERT_TRUE(rendered.ok()) << rendered.error().message;
      EXPECT_EQ(rendered->text, replaced(string_of(pattern.at(1)), place, text)) << shown_text(text);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2000u);
}

TEST_F(SmolLm2, FactsComeFromTheMetadata) {
  const auto tokenizer = Tokenizer::load(path_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value()->facts().vocab_size, 49152);
  EXPECT_EQ(tokenizer.value()->facts().bos, 1);
  EXPECT_EQ(tokenizer.value()->facts().eos, 2);
  EXPECT_TRUE(tokenizer.value()->is_special(2));
  EXPECT_EQ(tokenizer.value()->decode(encoded(*tokenizer.value(), "Hi, 日本 😀"), SpecialTokens::kKeep).value(), "Hi, 日本 😀");
  EXPECT_EQ(read_model_max_length(path_).value(), 0);
}

TEST(GgufTokenizer, ByteLevelMergesInOrderAndKnowsItsTokens) {
  const auto tokenizer = load(byte_level("gpt-2"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_THAT(encoded(*tokenizer.value(), "abcba"), ElementsAre(6, 1, 0));
  EXPECT_THAT(encoded(*tokenizer.value(), "a<|end|>dd"), ElementsAre(0, 7, 8));
  EXPECT_EQ(tokenizer.value()->special_texts(), std::vector<std::string>{"<|end|>"});
}

TEST(GgufTokenizer, ThePreTokenizerKindMustBeKnown) {
  EXPECT_THAT(error_of(byte_level("gtp-2")), AllOf(HasSubstr("\"gtp-2\" is not implemented"), HasSubstr("smollm"), HasSubstr("did you mean 'gpt-2'"), HasSubstr("--tokenizer")));
  EXPECT_THAT(error_of(byte_level("")), HasSubstr("tokenizer.ggml.pre is missing"));
  for (const char* kind : {"default", "smollm", "llama-bpe", "qwen2", "tekken", "command-r"}) {
    GgufWriter w = byte_level(kind);
    w.u32("tokenizer.ggml.bos_token_id", 7);
    EXPECT_EQ(error_of(w), "accepted") << kind;
  }
}

TEST(GgufTokenizer, FirstAndLastTokensAreAddedWhereTheFileSaysSo) {
  GgufWriter w = byte_level("smollm");
  w.u32("tokenizer.ggml.bos_token_id", 7).u32("tokenizer.ggml.eos_token_id", 4);
  EXPECT_THAT(encoded(*load(w).value(), "ab", AddSpecialTokens::kYes), ElementsAre(5));
  GgufWriter llama3 = byte_level("llama-bpe");  // this kind begins with one unless told otherwise
  llama3.u32("tokenizer.ggml.bos_token_id", 7);
  EXPECT_THAT(encoded(*load(llama3).value(), "ab", AddSpecialTokens::kYes), ElementsAre(7, 5));
  llama3.boolean("tokenizer.ggml.add_bos_token", false);
  EXPECT_THAT(encoded(*load(llama3).value(), "ab", AddSpecialTokens::kYes), ElementsAre(5));
  w.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true);
  EXPECT_THAT(encoded(*load(w).value(), "ab", AddSpecialTokens::kYes), ElementsAre(7, 5, 4));
  EXPECT_THAT(error_of(byte_level("llama-bpe")), HasSubstr("bos_token_id is missing"));
}

TEST(GgufTokenizer, SentencePieceJoinsByScoreAndFallsBackToBytes) {
  const auto tokenizer = load(sentence_piece());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_THAT(encoded(*tokenizer.value(), "hello", AddSpecialTokens::kYes), ElementsAre(1, 263));
  EXPECT_THAT(encoded(*tokenizer.value(), "hello hello"), ElementsAre(263, 263));
  EXPECT_THAT(encoded(*tokenizer.value(), "he"), ElementsAre(264, 259));
  EXPECT_THAT(encoded(*tokenizer.value(), "\xc3\xa9"), ElementsAre(264, 3 + 0xc3, 3 + 0xa9));  // é has no token
  EXPECT_THAT(encoded(*tokenizer.value(), "o\n\no"), ElementsAre(264, 268, 269, 264, 268));    // user-defined, then a space again
  EXPECT_EQ(tokenizer.value()->decode(std::vector<TokenId>{263, 263, 3 + 0xc3, 3 + 0xa9}, SpecialTokens::kKeep).value(), "hello hello\xc3\xa9");
  GgufWriter bare = sentence_piece();
  bare.boolean("tokenizer.ggml.add_space_prefix", false);
  EXPECT_THAT(encoded(*load(bare).value(), "hello"), ElementsAre(262));
}

TEST(GgufTokenizer, WrongFieldsAreRefusedByKey) {
  const auto with = [](const std::function<void(GgufWriter&)>& edit) {
    GgufWriter w = byte_level("gpt-2");
    edit(w);
    return error_of(w);
  };
  EXPECT_THAT(with([](GgufWriter& w) { w.u32("tokenizer.ggml.eos_token_id", 9); }), HasSubstr("eos_token_id = 9 is no token: there are 9"));
  EXPECT_THAT(with([](GgufWriter& w) { w.text("tokenizer.ggml.add_bos_token", "yes"); }), HasSubstr("must be a boolean"));
  EXPECT_THAT(with([](GgufWriter& w) { w.boolean("tokenizer.ggml.add_sep_token", true); }), HasSubstr("add_sep_token"));
  EXPECT_THAT(with([](GgufWriter& w) { w.u32("tokenizer.ggml.normaliser", 1); }), HasSubstr("unknown metadata key \"tokenizer.ggml.normaliser\""));
  GgufWriter alien;
  alien.text("tokenizer.ggml.model", "t5");
  EXPECT_THAT(error_of(alien), AllOf(HasSubstr("\"t5\" is not implemented"), HasSubstr("gpt2, llama")));
  EXPECT_THAT(error_of(GgufWriter()), HasSubstr("holds no tokenizer"));
  GgufWriter twice;
  twice.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {}).texts("tokenizer.ggml.tokens", {"a", "a"}).i32s("tokenizer.ggml.token_type", {1, 1});
  EXPECT_THAT(error_of(twice), HasSubstr("\"a\" twice"));
  GgufWriter types;
  types.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {}).texts("tokenizer.ggml.tokens", {"a"}).i32s("tokenizer.ggml.token_type", {7});
  EXPECT_THAT(error_of(types), HasSubstr("token_type holds 7"));
  GgufWriter merges;
  merges.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {"ab"}).texts("tokenizer.ggml.tokens", {"a"}).i32s("tokenizer.ggml.token_type", {1});
  EXPECT_THAT(error_of(merges), HasSubstr("\"ab\", which is no pair"));
}

// What other readers of such files pass over is no reason to refuse one: a padding token that is none, types that are left out or undefined.
TEST(GgufTokenizer, FieldsWithoutEffectMayBeWrong) {
  const std::vector<TokenId> ids = {6, 1, 0};
  for (const char* key : {"tokenizer.ggml.padding_token_id", "tokenizer.ggml.unknown_token_id"}) {
    GgufWriter w = byte_level("gpt-2");
    w.u32(key, 60000);
    const auto tokenizer = load(w);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ(encoded(*tokenizer.value(), "abcba"), ids);
  }
  const std::vector<std::string> tokens = {"a", "b", "c", "ab"};
  for (const bool stated : {false, true}) {
    GgufWriter w;
    w.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {"a b"});
    if (stated) w.i32s("tokenizer.ggml.token_type", {1, 1, 0, 1});
    const auto tokenizer = load(w);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_THAT(encoded(*tokenizer.value(), "abb"), ElementsAre(3, 1));
  }
}

// Files mistype them; as ordinary text they would neither be found in a rendered chat nor kept out of what a user writes.
TEST(GgufTokenizer, TokensThatEndAnswersAreControlTokens) {
  for (const std::int32_t type : {kNormal, kControl, kUser}) {
    Vocabulary v;
    for (const char* token : {"<", "e", "n", "d", "_", "o", "f", "t", "u", "r", ">"}) v.add(token);
    v.add("<end_of_turn>", type);
    GgufWriter w;
    w.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {});
    v.write(w);
    const auto tokenizer = load(w);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_TRUE(tokenizer.value()->is_special(11));
    EXPECT_THAT(encoded(*tokenizer.value(), "n<end_of_turn>"), ElementsAre(2, 11));
    EXPECT_THAT(encoded(*tokenizer.value(), "<end_of_turn>", AddSpecialTokens::kNo, SpecialText::kOrdinary), testing::SizeIs(13));
  }
}

// Each cut of a piece is looked up: a long one would take the time of its length squared.
TEST(GgufTokenizer, LongSentencePiecesAreRefused) {
  const auto with_piece = [](std::size_t bytes) {
    Vocabulary v;
    v.add("<unk>", kUnknown);
    v.add(std::string(bytes, 'a'));
    GgufWriter w;
    w.text("tokenizer.ggml.model", "llama").boolean("tokenizer.ggml.add_bos_token", false);
    v.write(w);
    return error_of(w);
  };
  EXPECT_EQ(with_piece(1024), "accepted");
  for (const std::size_t bytes : {std::size_t{1025}, std::size_t{1} << 23}) EXPECT_THAT(with_piece(bytes), AllOf(HasSubstr("tokenizer.ggml.tokens: element 1"), HasSubstr(std::to_string(bytes) + " bytes; 1024 are allowed")));
}

// JSON holds nothing else.
TEST(GgufTokenizer, TextThatIsNotUtf8IsRefused) {
  for (const char* bad : {"\x80", "a\xff", "\xc0\x80", "\xe2\x96", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    GgufWriter tokens;
    tokens.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {}).texts("tokenizer.ggml.tokens", {"a", bad}).i32s("tokenizer.ggml.token_type", {1, 1});
    EXPECT_THAT(error_of(tokens), AllOf(HasSubstr("tokenizer.ggml.tokens: element 1"), HasSubstr("is not UTF-8")));
    GgufWriter merge;
    merge.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.merges", {bad}).texts("tokenizer.ggml.tokens", {"a"}).i32s("tokenizer.ggml.token_type", {1});
    EXPECT_THAT(error_of(merge), HasSubstr("tokenizer.ggml.merges: element 0"));
    EXPECT_FALSE(is_utf8(bad));
  }
  for (const char* good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) EXPECT_TRUE(is_utf8(good));
}

}  // namespace
}  // namespace quire::text
