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

// One change of ten different characters (the empty input gives nothing else), where it writes no byte or number by chance: each of their 80 bits
// flipped; any start of them before any rest of them, 11 * 11, which is what erasing, repeating, cutting and another input's rest come to; the
// word put before, between or behind them, 11, or over any run of them, 55.
constexpr std::size_t kWithoutChance = 10 * 8 + 11 * 11 + 11 + 55;

TEST(Mutator, ChangesReachEveryKindAndStayShort) {
  Mutator mutator(1, {"0123456789", ""}, {"WORD"}, 24);
  std::set<std::string> seen;
  bool longer = false, shorter = false, word = false, two_changes = false;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutator.next();
    EXPECT_LE(text.size(), 24u);
    longer = longer || text.size() > 14;
    shorter = shorter || (text.size() > 0 && text.size() < 10);
    word = word || text.find("WORD") != std::string::npos;
    two_changes = two_changes || text.find("WORD") != text.rfind("WORD");  // no single one writes it twice
    seen.insert(text);
  }
  EXPECT_TRUE(longer && shorter && word && two_changes);
  EXPECT_GT(seen.size(), kWithoutChance);
}

}  // namespace
}  // namespace quire::fuzz
