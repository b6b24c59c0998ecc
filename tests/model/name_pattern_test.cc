// Patterns over module names: what Python's re.match and fnmatch would say, what is refused, and that no pattern takes long.
#include "kit/slowdown.h"
#include "model/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace quire::model::test {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char *pattern, *name;
  bool matches;
};

TEST(NamePattern, RegexIsPythonsMatch) {
  const Case kCases[] = {
      {"", "", true},
      {"", "anything", true},
      {"lm_head", "lm_head", true},
      {"lm_head", "lm_head.weight", true},  // re.match needs no end
      {"lm_head$", "lm_head.weight", false},
      {"head", "lm_head", false},  // ... but a beginning
      {".*lm_head", "lm_head", true},
      {".*head", "model.lm_head", true},
      {".*mlp.*", "model.layers.0.mlp.gate_proj", true},
      {".*mlp.*", "model.layers.0.self_attn.q_proj", false},
      {R"(.*\.mlp\.gate$)", "model.layers.3.mlp.gate", true},
      {R"(.*\.mlp\.gate$)", "model.layers.3.mlp.gate_proj", false},
      {R"(model\.layers\.\d+\.self_attn\..*)", "model.layers.17.self_attn.o_proj", true},
      {R"(model\.layers\.\d+\.self_attn\..*)", "model.layers.x.self_attn.o_proj", false},
      {R"(model\.layers\.([0-9]|1[0-2])\..*)", "model.layers.12.mlp.up_proj", true},
      {R"(model\.layers\.([0-9]|1[0-2])\..*)", "model.layers.13.mlp.up_proj", false},
      {"a|bc", "bc", true},
      {"a|bc$", "bd", false},
      {"(?:a|b)+c$", "ababc", true},
      {"(?:a|b)+c$", "c", false},
      {"(a*)*b$", "aaab", true},
      {"(a|)b", "b", true},
      {"x*?y", "xxy", true},
      {"x??y", "y", true},
      {"[^.]+$", "a.b", false},
      {"[^.]+$", "ab", true},
      {"[]a]+$", "]a]", true},
      {R"([\d_]+$)", "1_2", true},
      {R"([a-c-]+$)", "a-b", true},
      {"^^a", "a", true},
      {"a^b", "ab", false},
      {R"(\W)", ".", true},
      {R"(\.)", "x", false},
      {R"(\*)", "*", true},
  };
  for (const Case& c : kCases) {
    const auto p = NamePattern::regex(c.pattern);
    ASSERT_TRUE(p.ok()) << c.pattern << ": " << p.error().message;
    EXPECT_EQ(p->matches(c.name), c.matches) << c.pattern << " over " << c.name;
  }
}

TEST(NamePattern, GlobIsPythonsFnmatch) {
  const Case kCases[] = {
      {"*k_proj", "model.layers.0.self_attn.k_proj", true},
      {"*k_proj", "model.layers.0.self_attn.k_proj.weight", false},
      {"model.layers.1.*", "model.layers.1.mlp.up_proj", true},
      {"model.layers.1.*", "model.layers.10.mlp.up_proj", false},
      {"model.layers.1.*", "modelXlayers.1.mlp", false},  // a dot is a dot
      {"?_proj", "q_proj", true},
      {"?_proj", "_proj", false},
      {"[!kv]_proj", "q_proj", true},
      {"[!kv]_proj", "k_proj", false},
      {"[q-v]_proj", "v_proj", true},
      {"**", "", true},
      {"*a*b*", "xxaxxbxx", true},
      {"*a*b*", "xxbxxaxx", false},
      {"a+(b", "a+(b", true},
  };
  for (const Case& c : kCases) {
    const auto p = NamePattern::glob(c.pattern);
    ASSERT_TRUE(p.ok()) << c.pattern << ": " << p.error().message;
    EXPECT_EQ(p->matches(c.name), c.matches) << c.pattern << " over " << c.name;
  }
}

TEST(NamePattern, RefusesWhatItDoesNotImplement) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"a{2,3}", "counts"}, {"(?!a)b", "lookaround"}, {"(?i)a", "flags"}, {"(?P<x>a)", "named groups"}, {R"((a)\1)", "'\\'"}, {R"(\bx)", "'\\'"}, {"a\\", "'\\'"},
      {"(a", "not closed"}, {"a)", "closes nothing"}, {"*a", "nothing to repeat"}, {"a**", "nothing to repeat"}, {"^*", "nothing to repeat"}, {"[a", "not closed"}, {"[z-a]", "range"}, {R"([\.-z])", "range"},
  };
  for (const auto& [pattern, word] : kRefused) {
    const auto p = NamePattern::regex(pattern);
    ASSERT_FALSE(p.ok()) << pattern;
    EXPECT_EQ(p.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(p.error().message, HasSubstr(word)) << pattern;
  }
  EXPECT_THAT(NamePattern::glob("[ab").error().message, HasSubstr("not closed"));
  EXPECT_THAT(NamePattern::regex(std::string(65, '(') + std::string(65, ')')).error().message, HasSubstr("groups inside each other"));
  EXPECT_THAT(NamePattern::regex(std::string(513, 'a')).error().message, HasSubstr("512"));
  EXPECT_TRUE(NamePattern::regex(std::string(512, 'a')).ok());
}

// Each of these takes exponential time to a matcher that backtracks.
TEST(NamePattern, HostilePatternsTakeLinearTime) {
  const auto started = std::chrono::steady_clock::now();
  const std::string name(200, 'a');
  for (const char* pattern : {"(a+)+$b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)b", "((a?)*)*b"}) {
    const auto p = NamePattern::regex(pattern);
    ASSERT_TRUE(p.ok()) << p.error().message;
    EXPECT_FALSE(p->matches(name)) << pattern;
  }
  EXPECT_FALSE(NamePattern::glob("*a*a*a*a*a*a*a*a*a*a*a*a*b").value().matches(name));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20 * quire::test::kSlowdown));
}

}  // namespace
}  // namespace quire::model::test
