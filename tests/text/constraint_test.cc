// Constraints: every token they allow leads to an output that the grammar accepts; hostile grammars get errors.
#include "kit/slowdown.h"
#include "text/constraint.h"

#include <chrono>
#include <thread>

#include "kit.h"
#include "kit/seed.h"
#include "text/ffi/quire_text.h"

namespace quire::text::test {
namespace {

std::shared_ptr<const Grammars> grammars_of(const std::shared_ptr<const Tokenizer>& tokenizer) {
  const std::array eos{tokenizer->facts().eos.value()};
  auto grammars = Grammars::create(tokenizer, eos);
  EXPECT_TRUE(grammars.ok()) << grammars.error().message;
  return grammars.value();
}

std::vector<TokenId> allowed(Constraint& constraint, const Tokenizer& tokenizer) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(tokenizer.facts().vocab_size + 31) / 32 + 1, 0xffffffffu);
  const auto status = constraint.next_mask(words);
  EXPECT_TRUE(status.ok()) << status.error().message;
  std::vector<TokenId> out;
  for (std::size_t id = 0; id < words.size() * 32; ++id) {
    if ((words[id / 32] >> (id % 32) & 1u) != 0) out.push_back(static_cast<TokenId>(id));
  }
  return out;
}

// Random allowed tokens until the end token; the end token as soon as `is_long`.
std::string random_output(Constraint& constraint, const Tokenizer& tokenizer, std::mt19937_64& rng) {
  std::vector<TokenId> ids;
  for (int n = 0; n < 400; ++n) {
    const auto choices = allowed(constraint, tokenizer);
    EXPECT_FALSE(choices.empty());
    if (choices.empty()) break;
    const TokenId eos = tokenizer.facts().eos.value();
    const bool may_end = std::find(choices.begin(), choices.end(), eos) != choices.end();
    EXPECT_EQ(constraint.is_accepting().value(), may_end);
    if (may_end && (choices.size() == 1 || n > 40 || rng() % 4 == 0)) return tokenizer.decode(ids, SpecialTokens::kKeep).value();
    const TokenId id = choices[rng() % choices.size()];
    EXPECT_LT(id, tokenizer.facts().vocab_size);
    EXPECT_TRUE(id == eos || !tokenizer.is_special(id)) << id;
    if (id == eos) continue;
    EXPECT_TRUE(constraint.commit(id).ok());
    ids.push_back(id);
  }
  return "unfinished: " + tokenizer.decode(ids, SpecialTokens::kKeep).value();
}

class Constraints : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Constraints, testing::Values("gsm_tiny", "llama_like", "spm_like"), [](const auto& param_info) { return param_info.param; });

TEST_P(Constraints, ChoiceRegexLarkAndSchema) {
  const auto tokenizer = load(GetParam());
  const auto grammars = grammars_of(tokenizer);
  auto rng = quire::test::seeded_rng();
  // The first word of a SentencePiece text loses its space in decode(); the grammar sees the token's own bytes.
  const auto trimmed = [](std::string text) { return text.starts_with(' ') ? text.substr(1) : text; };
  for (int round = 0; round < 10; ++round) {
    auto choice = grammars->constraint(ConstraintKind::kChoice, R"x(["yes", "no (maybe)", "größer|*"])x");
    ASSERT_TRUE(choice.ok()) << choice.error().message;
    const auto chosen = random_output(*choice.value(), *tokenizer, rng);
    EXPECT_TRUE(chosen == "yes" || chosen == "no (maybe)" || chosen == "größer|*") << chosen;
    EXPECT_TRUE(choice.value()->is_accepting().value());

    auto regex = grammars->constraint(ConstraintKind::kRegex, "[a-c]{2,4}-[0-9]+");
    ASSERT_TRUE(regex.ok()) << regex.error().message;
    EXPECT_THAT(random_output(*regex.value(), *tokenizer, rng), testing::MatchesRegex("[a-c][a-c][a-c]?[a-c]?-[0-9]+"));

    auto lark = grammars->constraint(ConstraintKind::kLark, "start: \"<\" word \">\"\nword: /[xy]+/ | \"(\" word \")\"\n");
    ASSERT_TRUE(lark.ok()) << lark.error().message;
    const auto text = random_output(*lark.value(), *tokenizer, rng);
    EXPECT_TRUE(text.starts_with("unfinished") || (text.front() == '<' && text.back() == '>')) << text;

    auto schema = grammars->constraint(ConstraintKind::kJsonSchema, R"({"type": "object", "properties": {"n": {"type": "integer"}, "b": {"enum": ["u", "v"]}}, "required": ["n", "b"], "additionalProperties": false})");
    ASSERT_TRUE(schema.ok()) << schema.error().message;
    const auto object = trimmed(random_output(*schema.value(), *tokenizer, rng));
    if (object.starts_with("unfinished")) continue;
    const auto parsed = parse_json(object);
    ASSERT_TRUE(parsed.ok() || object.size() > 15) << object;  // an integer may outgrow what our parser takes
    if (parsed.ok()) {
      EXPECT_EQ(parsed.value().as_object().size(), 2u) << object;
    }
  }
}

TEST(Constraint, RefusedTokenLeavesTheStateAlone) {
  const auto tokenizer = load("gsm_tiny");
  auto constraint = grammars_of(tokenizer)->constraint(ConstraintKind::kChoice, R"(["ab"])").value();
  const auto before = allowed(*constraint, *tokenizer);
  const TokenId z = tokenizer->token_id("z").value();
  ASSERT_EQ(std::find(before.begin(), before.end(), z), before.end());
  for (const TokenId id : {z, TokenId{2}, tokenizer->facts().vocab_size, TokenId{-1}, TokenId{2147483647}}) EXPECT_FALSE(constraint->commit(id).ok());
  EXPECT_EQ(allowed(*constraint, *tokenizer), before);
  EXPECT_FALSE(constraint->is_accepting().value());
  ASSERT_TRUE(constraint->commit(tokenizer->token_id("a").value()).ok());
  ASSERT_TRUE(constraint->commit(tokenizer->token_id("b").value()).ok());
  EXPECT_TRUE(constraint->is_accepting().value());
  EXPECT_EQ(allowed(*constraint, *tokenizer), std::vector<TokenId>{0});
  std::vector<std::uint32_t> small(1);
  EXPECT_FALSE(constraint->next_mask(small).ok());
}

TEST(Constraint, HostileGrammarsGetErrors) {
  const auto tokenizer = load("gsm_tiny");
  const auto grammars = grammars_of(tokenizer);
  const auto deep = [](const char* open, const char* close, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += open;
    text += "\"a\"";
    for (int i = 0; i < n; ++i) text += close;
    return text;
  };
  const std::vector<std::pair<ConstraintKind, std::string>> cases = {
      {ConstraintKind::kRegex, "("}, {ConstraintKind::kRegex, std::string(10000, '(') + "a" + std::string(10000, ')')},
      {ConstraintKind::kRegex, std::string(300000, 'a')}, {ConstraintKind::kRegex, "\xff"}, {ConstraintKind::kLark, ""}, {ConstraintKind::kLark, "start: nosuch"},
      {ConstraintKind::kLark, "start: " + deep("(", ")", 10000)}, {ConstraintKind::kLark, "start: " + deep("[", "]", 30000)}, {ConstraintKind::kJsonSchema, "{"},
      {ConstraintKind::kJsonSchema, "7"}, {ConstraintKind::kJsonSchema, deep("{\"not\":", "}", 10000)}, {ConstraintKind::kJsonSchema, R"({"type": "nosuch"})"},
      {ConstraintKind::kJsonSchema, R"({"$ref": "https://example.org/schema"})"}, {ConstraintKind::kJsonSchema, R"x({"type": "string", "pattern": "(("})x"},
      {ConstraintKind::kChoice, "[]"}, {ConstraintKind::kChoice, "[1]"}, {ConstraintKind::kChoice, "{}"}, {ConstraintKind::kChoice, "\"a\""},
  };
  for (const auto& [kind, source] : cases) {
    const auto constraint = grammars->constraint(kind, source);
    ASSERT_FALSE(constraint.ok()) << source.substr(0, 80);
    EXPECT_FALSE(constraint.error().message.empty());
    EXPECT_TRUE(constraint.error().code == ErrorCode::kInvalidArgument || constraint.error().code == ErrorCode::kTooLarge) << constraint.error().message.substr(0, 300);
    EXPECT_EQ(constraint.error().message.find("backtrace"), std::string::npos);
  }
  EXPECT_FALSE(Grammars::create(tokenizer, {}).ok());
  EXPECT_FALSE(Grammars::create(tokenizer, std::array{tokenizer->facts().vocab_size}).ok());
  EXPECT_FALSE(Grammars::create(tokenizer, std::array{TokenId{-1}}).ok());
}

TEST(Constraint, HeavyGrammarsAreBounded) {
  const auto tokenizer = load("gsm_tiny");
  const auto grammars = grammars_of(tokenizer);
  std::string enums = "{\"enum\":[0";
  for (int n = 1; n < 20000; ++n) enums += "," + std::to_string(n * 7919);
  enums += "]}";
  std::string wide = "{\"anyOf\":[{}";
  for (int n = 0; n < 3000; ++n) wide += ",{\"type\":\"object\",\"properties\":{\"p" + std::to_string(n) + "\":{\"type\":\"string\"}}}";
  wide += "]}";
  const std::vector<std::pair<ConstraintKind, std::string>> cases = {
      {ConstraintKind::kRegex, "(a{1000}){1000}{1000}"}, {ConstraintKind::kRegex, "(.*a.{1000}|.*b.{900}|(x+x+)+y)"}, {ConstraintKind::kJsonSchema, enums},
      {ConstraintKind::kJsonSchema, wide}, {ConstraintKind::kJsonSchema, R"({"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"})"},
      {ConstraintKind::kJsonSchema, R"({"$ref":"#"})"}, {ConstraintKind::kLark, "start: start start | \"a\""}, {ConstraintKind::kLark, "start: a\na: b\nb: a"},
  };
  for (const auto& [kind, source] : cases) {
    const auto begin = std::chrono::steady_clock::now();
    auto constraint = grammars->constraint(kind, source);
    std::vector<std::uint32_t> words(static_cast<std::size_t>(tokenizer->facts().vocab_size + 31) / 32);
    for (int n = 0; constraint.ok() && n < 20; ++n) {
      if (!constraint.value()->next_mask(words).ok()) break;
      TokenId id = 3;
      while (id < tokenizer->facts().vocab_size && (words[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1u) == 0) ++id;
      if (!constraint.value()->commit(id).ok()) break;
    }
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(took, 10.0 * quire::test::kSlowdown) << source.substr(0, 80);
  }
}

TEST(Constraint, ThreadsAndLeaks) {
  const std::int64_t before = quire_text_live_objects();
  {
    const auto tokenizer = load("llama_like");
    const auto grammars = grammars_of(tokenizer);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        std::mt19937_64 rng(7);
        auto constraint = grammars->constraint(ConstraintKind::kJsonObject, "");
        ASSERT_TRUE(constraint.ok()) << constraint.error().message;
        (void)random_output(*constraint.value(), *tokenizer, rng);
      });
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(quire_text_live_objects(), before);
}

}  // namespace
}  // namespace quire::text::test
