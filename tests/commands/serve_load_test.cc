// The load of `quire bench serve`: what a seed gives, and the shapes that were asked for.
#include "commands/serve_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kit/temp_dir.h"

namespace quire::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::int64_t count_words(const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; }

// The generator's first numbers are fixed: other numbers would make another load of every seed that somebody wrote down.
TEST(LoadRandom, IsSplitmix64) {
  LoadRandom random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(LoadRandom, RangesAreKept) {
  LoadRandom random(7);
  bool low = false, high = false;
  for (int i = 0; i < 2000; ++i) {
    const double u = random.uniform();
    ASSERT_TRUE(u >= 0.0 && u < 1.0) << u;
    const std::int64_t n = random.between(-2, 2);
    ASSERT_TRUE(n >= -2 && n <= 2) << n;
    low |= n == -2;
    high |= n == 2;
    ASSERT_GT(random.gamma(0.3), 0.0);
  }
  EXPECT_TRUE(low && high);
}

// Gaps are gamma distributed: mean 1 / rate, variance mean^2 / burstiness. The bounds are five standard errors of n draws; the fourth
// central moment of a gamma distribution of shape k is 3 var^2 (1 + 2 / k).
TEST(Arrivals, HaveTheRateAndBurstinessThatWereAskedFor) {
  for (const double shape : {0.25, 1.0, 9.0}) {
    const LoadRequest request{.num_prompts = 20001, .request_rate = 50.0, .burstiness = shape, .seed = 3};
    const std::vector<double> at = arrival_seconds(request);
    ASSERT_EQ(at.size(), 20001u);
    EXPECT_EQ(at.front(), 0.0);
    EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
    const double n = 20000, mean = 1.0 / 50.0, variance = mean * mean / shape;
    EXPECT_NEAR(at.back() / n, mean, 5.0 * std::sqrt(variance / n)) << shape;
    double squares = 0.0;
    for (std::size_t i = 1; i < at.size(); ++i) squares += (at[i] - at[i - 1] - mean) * (at[i] - at[i - 1] - mean);
    EXPECT_NEAR(squares / n, variance, 5.0 * variance * std::sqrt((3.0 * (1.0 + 2.0 / shape) - 1.0) / n)) << shape;
  }
}

TEST(Arrivals, WithoutARateAllComeAtOnce) { EXPECT_THAT(arrival_seconds({.num_prompts = 3}), ::testing::ElementsAre(0.0, 0.0, 0.0)); }

TEST(Load, ASeedGivesTheSameLoadAndAnotherOneAnother) {
  LoadRequest request{.num_prompts = 20, .turns = 2, .request_rate = 5.0, .input_len = 30, .output_len = 10, .range_ratio = 0.5, .seed = 11};
  const auto texts = [](const std::vector<LoadConversation>& load) {
    std::string out;
    for (const LoadConversation& c : load)
      for (const LoadTurn& t : c.turns) out += std::to_string(c.start_seconds) + t.text + std::to_string(t.output_len);
    return out;
  };
  const std::string first = texts(make_load(request, {}));
  EXPECT_EQ(texts(make_load(request, {})), first);
  request.seed = 12;
  EXPECT_NE(texts(make_load(request, {})), first);
}

TEST(Load, LengthsFollowTheRangeAndTheWordRate) {
  const LoadRequest request{.num_prompts = 400, .input_len = 40, .output_len = 10, .range_ratio = 0.25, .seed = 1};
  const WordRate rate{.tokens_per_word = 2.0, .fixed_tokens = 4.0};
  std::int64_t shortest = 1000, longest = 0;
  for (const LoadConversation& c : make_load(request, rate)) {
    const std::int64_t words = count_words(c.turns.at(0).text);
    shortest = std::min(shortest, words);
    longest = std::max(longest, words);
    EXPECT_GE(c.turns[0].output_len, 8);
    EXPECT_LE(c.turns[0].output_len, 12);
  }
  EXPECT_EQ(shortest, 13) << "30 tokens: (30 - 4) / 2 words";
  EXPECT_EQ(longest, 23) << "50 tokens: (50 - 4) / 2 words";
}

TEST(Load, PrefixesAreShared) {
  const auto load = make_load({.num_prompts = 5, .turns = 2, .input_len = 3, .prefix_len = 20, .seed = 2}, {});
  const std::string& first = load[0].turns[0].text;
  const auto prefix_end = [&] {
    std::size_t at = 0;
    for (int i = 0; i < 20; ++i) at = first.find(' ', at) + 1;
    return at;
  }();
  for (const LoadConversation& c : load) {
    EXPECT_EQ(c.turns[0].text.substr(0, prefix_end), first.substr(0, prefix_end));
    EXPECT_EQ(count_words(c.turns[0].text), 23);
    EXPECT_EQ(count_words(c.turns[1].text), 3) << "the first turn's is in the history already";
  }
  EXPECT_NE(load[0].turns[0].text, load[1].turns[0].text);
}

TEST(Load, ManyTokensAWordStillMakeOne) { EXPECT_EQ((WordRate{.tokens_per_word = 3.0, .fixed_tokens = 20.0}).words_for(5), 1); }

TEST(Dataset, LinesBecomePrompts) {
  const ::quire::test::TempDir dir;
  const std::string path = dir.path() + "/d.jsonl";
  ASSERT_TRUE(dir.write("d.jsonl", "{\"prompt\": \"one\", \"other\": 1}\n\n{\"prompt\": \"two\", \"output_tokens\": 5}\r\n").size() > 0);
  const auto dataset = read_dataset(path);
  ASSERT_TRUE(dataset.ok()) << dataset.error().message;
  ASSERT_EQ(dataset->size(), 2u);
  const auto load = make_load({.num_prompts = 3, .output_len = 9}, {}, dataset.value());
  EXPECT_EQ(load[0].turns[0].text, "one");
  EXPECT_EQ(load[0].turns[0].output_len, 9);
  EXPECT_EQ(load[1].turns[0].output_len, 5);
  EXPECT_EQ(load[2].turns[0].text, "one") << "from the first again";
}

TEST(Dataset, ErrorsNameTheLine) {
  const ::quire::test::TempDir dir;
  for (const auto& [text, error] : {std::pair("{\"prompt\": \"a\"}\n[]\n", "d.jsonl:2: must be an object with \"prompt\""), std::pair("{\"prompt\": \"\"}", ":1: "), std::pair("{", ":1: "),
                                    std::pair("{\"prompt\": \"a\", \"output_tokens\": 0}", "\"output_tokens\" must be an integer of at least 1"), std::pair("\n \n", "it holds no prompt")}) {
    (void)dir.write("d.jsonl", text);
    const auto dataset = read_dataset(dir.path() + "/d.jsonl");
    ASSERT_FALSE(dataset.ok()) << text;
    EXPECT_THAT(dataset.error().message, AllOf(HasSubstr("--dataset"), HasSubstr(error)));
  }
  EXPECT_THAT(read_dataset(dir.path() + "/none").error().message, HasSubstr("--dataset"));
}

}  // namespace
}  // namespace quire::commands
