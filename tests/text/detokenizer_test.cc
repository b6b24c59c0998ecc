// The incremental detokenizer: whatever the tokens are, the pieces joined are the whole text, and each piece is whole characters.
#include <chrono>

#include "kit.h"
#include "kit/seed.h"
#include "kit/slowdown.h"

namespace quire::text::test {
namespace {

// Valid UTF-8 is what encode() accepts.
bool is_valid(const Tokenizer& tokenizer, const std::string& text) { return tokenizer.encode(text, AddSpecialTokens::kNo).ok(); }

std::string join(const std::shared_ptr<const Tokenizer>& tokenizer, std::span<const TokenId> prompt, std::span<const TokenId> output, SpecialTokens special) {
  IncrementalDetokenizer pieces(tokenizer, prompt, special);
  std::string all;
  for (const TokenId id : output) {
    const std::string piece = pieces.push(id);
    EXPECT_TRUE(is_valid(*tokenizer, piece));
    all += piece;
  }
  const std::string rest = pieces.finish();
  EXPECT_TRUE(is_valid(*tokenizer, rest));
  EXPECT_EQ(pieces.finish(), "");
  return all + rest;
}

class Detokenizer : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Detokenizer, testing::ValuesIn(kNames), [](const auto& param_info) { return param_info.param; });

TEST_P(Detokenizer, RandomTokensGiveTheWholeText) {
  const auto tokenizer = load(GetParam());
  auto rng = quire::test::seeded_rng();
  const auto vocab = static_cast<std::uint64_t>(tokenizer->facts().vocab_size);
  int num_checked = 0;
  for (int round = 0; round < 3000; ++round) {
    const SpecialTokens special = round % 2 == 0 ? SpecialTokens::kSkip : SpecialTokens::kKeep;
    std::vector<TokenId> ids(1 + rng() % 60);
    // Low ids are bytes and control tokens: they get more than their share.
    for (auto& id : ids) {
      const bool is_low = rng() % 3 == 0;
      id = static_cast<TokenId>(rng() % (is_low ? std::min<std::uint64_t>(vocab, 40) : vocab));
    }
    const std::size_t prompt_len = rng() % (ids.size() + 1);
    const auto prompt = std::span(ids).first(prompt_len);
    const std::string before = tokenizer->decode(prompt, special).value();
    const std::string all = tokenizer->decode(ids, special).value();
    const std::string pieces = join(tokenizer, prompt, std::span(ids).subspan(prompt_len), special);
    // Without a clean end of the prompt the difference is not defined.
    if (before.ends_with("\xEF\xBF\xBD") || !all.starts_with(before)) continue;
    // Nor where the prompt is a lone space byte: it decodes to nothing, and would turn bad with a bad byte behind it.
    if (before.empty() && prompt_len > 0 && all.starts_with("\xEF\xBF\xBD")) continue;
    ++num_checked;
    ASSERT_EQ(pieces, all.substr(before.size())) << "round " << round << ", prompt of " << prompt_len << " of " << boost::json::serialize(boost::json::value_from(ids));
  }
  EXPECT_GT(num_checked, 1000);
}

TEST_P(Detokenizer, RealTextAtEverySplit) {
  const auto tokenizer = load(GetParam());
  const std::string text = "Größe 😀😃 世界, and  two spaces\n\n日本 end 👩‍👩‍👧";
  const auto ids = tokenizer->encode(text, AddSpecialTokens::kYes).value();
  const std::string all = tokenizer->decode(ids, SpecialTokens::kSkip).value();
  for (std::size_t n = 0; n <= ids.size(); ++n) {
    const auto prompt = std::span(ids).first(n);
    const std::string before = tokenizer->decode(prompt, SpecialTokens::kSkip).value();
    const std::string pieces = join(tokenizer, prompt, std::span(ids).subspan(n), SpecialTokens::kSkip);
    EXPECT_TRUE(all.ends_with(pieces)) << n << " '" << pieces << "'";
    if (all.starts_with(before)) {
      EXPECT_EQ(before + pieces, all) << n;
    } else {
      // The prompt ended in half a character: it comes out whole, once, and nothing before it comes again.
      EXPECT_LE(pieces.size(), all.size() - (before.find("\xEF\xBF\xBD") == std::string::npos ? 0 : before.find("\xEF\xBF\xBD")));
    }
  }
}

TEST_P(Detokenizer, LongStreamsTakeLinearTime) {
  const auto tokenizer = load(GetParam());
  auto rng = quire::test::seeded_rng();
  const auto vocab = static_cast<std::uint64_t>(tokenizer->facts().vocab_size);
  const auto seconds = [&](std::size_t count, const std::vector<TokenId>& from) {
    const auto begin = std::chrono::steady_clock::now();
    IncrementalDetokenizer pieces(tokenizer, {}, SpecialTokens::kSkip);
    std::size_t bytes = 0;
    for (std::size_t n = 0; n < count; ++n) bytes += pieces.push(from[n % from.size()]).size();
    bytes += pieces.finish().size();
    EXPECT_GT(bytes, 0u);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<TokenId> mixed(997);
  for (auto& id : mixed) id = static_cast<TokenId>(rng() % vocab);
  // A stream that never completes a character is the worst case for holding back.
  const auto bad = tokenizer->token_id(GetParam() == "spm_like" ? "<0xFF>" : "ÿ");
  for (const auto& from : {mixed, std::vector<TokenId>{bad.value_or(mixed.front())}}) {
    const double small = seconds(4000, from);
    EXPECT_LT(seconds(32000, from), 32 * small + 0.5 * quire::test::kSlowdown);
    EXPECT_LT(small, 2.0 * quire::test::kSlowdown);
  }
}

TEST(Detokenizer, HalfCharactersAreHeldBack) {
  for (const std::string name : {"gsm_tiny", "llama_like", "spm_like"}) {
    const auto tokenizer = load(name);
    const auto ids = tokenizer->encode("a\xF0\x9F\x98\x80", AddSpecialTokens::kNo).value();
    ASSERT_GE(ids.size(), 5u);
    IncrementalDetokenizer pieces(tokenizer, {}, SpecialTokens::kSkip);
    std::string all;
    for (std::size_t n = 0; n + 1 < ids.size(); ++n) {
      all += pieces.push(ids[n]);
      EXPECT_EQ(all.find("\xEF\xBF\xBD"), std::string::npos);
    }
    EXPECT_EQ(all, "a");
    all += pieces.push(ids.back());
    all += pieces.finish();
    EXPECT_EQ(all, "a\xF0\x9F\x98\x80");

    IncrementalDetokenizer cut(tokenizer, {}, SpecialTokens::kSkip);
    std::string half;
    for (std::size_t n = 0; n + 1 < ids.size(); ++n) half += cut.push(ids[n]);
    half += cut.finish();
    EXPECT_EQ(half, tokenizer->decode(std::span(ids).first(ids.size() - 1), SpecialTokens::kSkip).value()) << "finish() gives the rest";
  }
}

TEST(Detokenizer, PromptEndingInHalfACharacter) {
  for (const std::string name : {"gsm_tiny", "llama_like", "spm_like"}) {
    const auto tokenizer = load(name);
    const auto ids = tokenizer->encode("prompt \xF0\x9F\x98\x80 tail", AddSpecialTokens::kNo).value();
    const auto head = tokenizer->encode("prompt ", AddSpecialTokens::kNo).value();
    std::size_t first = 0;  // the first token of the character
    while (tokenizer->decode(std::span(ids).first(first + 1), SpecialTokens::kSkip).value().find("\xEF\xBF\xBD") == std::string::npos) ++first;
    for (std::size_t n = first + 1; n < first + 4; ++n) {
      EXPECT_EQ(join(tokenizer, std::span(ids).first(n), std::span(ids).subspan(n), SpecialTokens::kSkip), "\xF0\x9F\x98\x80 tail") << name << " " << n;
      // The model goes on with something else: the prompt's broken character is not given out again.
      const auto other = tokenizer->encode("x", AddSpecialTokens::kNo).value();
      const std::string pieces = join(tokenizer, std::span(ids).first(n), other, SpecialTokens::kSkip);
      EXPECT_NE(pieces.find('x'), std::string::npos);
      EXPECT_EQ(pieces.find("prompt"), std::string::npos);
      EXPECT_EQ(pieces.find("\xEF\xBF\xBD"), std::string::npos);
    }
  }
}

TEST(Detokenizer, ByteRunsAreNotChangedByWhatFollowsThePrompt) {
  // In the library one bad byte turns a whole run of byte tokens bad; text that the client has already seen must stay.
  const auto tokenizer = load("spm_like");
  const auto prompt = tokenizer->encode("x \xE4\xB8\x96", AddSpecialTokens::kNo).value();
  const TokenId bad = tokenizer->token_id("<0xFF>").value();
  EXPECT_EQ(join(tokenizer, prompt, std::vector<TokenId>{bad}, SpecialTokens::kSkip), "\xEF\xBF\xBD");
  const auto more = tokenizer->encode("\xE7\x95\x8C", AddSpecialTokens::kNo).value();
  EXPECT_EQ(join(tokenizer, prompt, std::span(more).last(3), SpecialTokens::kSkip), "\xE7\x95\x8C");
}

TEST(Detokenizer, LongByteRunsStream) {
  const auto tokenizer = load("spm_like");
  std::string text;
  for (int n = 0; n < 100; ++n) text += "\xE4\xB8\x96";
  const auto ids = tokenizer->encode(text, AddSpecialTokens::kNo).value();
  IncrementalDetokenizer pieces(tokenizer, {}, SpecialTokens::kSkip);
  std::string all;
  std::size_t silent = 0, longest = 0;
  for (const TokenId id : ids) {
    const std::string piece = pieces.push(id);
    silent = piece.empty() ? silent + 1 : 0;
    longest = std::max(longest, silent);
    all += piece;
  }
  EXPECT_LE(longest, 32u);
  EXPECT_EQ(all + pieces.finish(), text);
}

TEST(Detokenizer, LeadingSpaces) {
  const auto tokenizer = load("spm_like");
  const TokenId the = tokenizer->token_id("▁the").value();
  const TokenId bos = 1;
  EXPECT_EQ(join(tokenizer, {}, std::vector<TokenId>{the, the}, SpecialTokens::kSkip), "the the") << "the first word of a text has no space";
  EXPECT_EQ(join(tokenizer, std::vector<TokenId>{the}, std::vector<TokenId>{the}, SpecialTokens::kSkip), " the") << "but the answer to a prompt has";
  EXPECT_EQ(join(tokenizer, std::vector<TokenId>{bos}, std::vector<TokenId>{the}, SpecialTokens::kSkip), "the");
  EXPECT_EQ(join(tokenizer, std::vector<TokenId>{the, bos}, std::vector<TokenId>{the}, SpecialTokens::kSkip), " the");
}

TEST(Detokenizer, SpecialAndUnknownTokens) {
  const auto tokenizer = load("gsm_tiny");
  const auto hi = tokenizer->encode("hi", AddSpecialTokens::kNo).value();
  std::vector<TokenId> output = hi;
  output.push_back(2);
  output.insert(output.end(), {-1, tokenizer->facts().vocab_size, 2147483647});
  output.insert(output.end(), hi.begin(), hi.end());
  EXPECT_EQ(join(tokenizer, {}, output, SpecialTokens::kSkip), "hihi");
  EXPECT_EQ(join(tokenizer, {}, output, SpecialTokens::kKeep), "hi<|im_end|>hi");
  EXPECT_EQ(join(tokenizer, std::vector<TokenId>{-5, 1 << 30}, hi, SpecialTokens::kSkip), "hi");
}

}  // namespace
}  // namespace quire::text::test
