#include "fuzz/mutator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace quire::fuzz {
namespace {

using ::testing::ElementsAre;

TEST(Dictionary, WordsInLibFuzzersForm) {
  const auto words = parse_dictionary("# comment\n\"plain\"\n\nname=\"a\\\"b\\\\\"\nzero=\"\\x00\\xffz\"");
  ASSERT_TRUE(words.ok()) << words.error().message;
  EXPECT_THAT(words.value(), ElementsAre("plain", "a\"b\\", std::string("\0\xffz", 3)));
}

TEST(Dictionary, RefusesWhatIsNoWord) {
  for (const char* bad : {"plain", "\"no end", "\"\"", "\"a\" b", "\"\\q\"", "\"\\x4\"", "name \"a\""}) EXPECT_FALSE(parse_dictionary(bad).ok()) << bad;
}

TEST(Mutator, TheSameSeedGivesTheSameInputs) {
  Mutator a(7, {"{\"key\": 1}", "second"}, {"word"}, 64), b(7, {"{\"key\": 1}", "second"}, {"word"}, 64), c(8, {"{\"key\": 1}", "second"}, {"word"}, 64);
  std::vector<std::string> first, again, other;
  for (int i = 0; i < 50; ++i) {
    first.push_back(a.next());
    again.push_back(b.next());
    other.push_back(c.next());
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Mutator, ChangesReachEveryKindAndStayShort) {
  Mutator mutator(1, {"0123456789", ""}, {"WORD"}, 24);
  std::set<std::string> seen;
  bool longer = false, shorter = false, word = false;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutator.next();
    EXPECT_LE(text.size(), 24u);
    longer = longer || text.size() > 14;
    shorter = shorter || (text.size() > 0 && text.size() < 10);
    word = word || text.find("WORD") != std::string::npos;
    seen.insert(text);
  }
  EXPECT_TRUE(longer && shorter && word);
  EXPECT_GT(seen.size(), 500u);
}

}  // namespace
}  // namespace quire::fuzz
