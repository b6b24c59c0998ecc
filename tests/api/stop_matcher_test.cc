#include "api/stop_matcher.h"

#include <gtest/gtest.h>

#include "kit/seed.h"

namespace quire::api {
namespace {

struct Ending {
  std::string text;
  int stop = -1;
};

Ending run(StopMatcher matcher, const std::vector<std::string>& pieces) {
  Ending out;
  for (const std::string& piece : pieces) {
    const StopMatcher::Step step = matcher.push(piece, StopMatcher::Armed::kYes);
    out.text += step.text;
    out.stop = step.stop;
    if (step.stop >= 0) return out;
  }
  out.text += matcher.flush();
  return out;
}

// What should come out, from the whole text: the stop string that ends first, the longest of those that end together.
Ending expect(const std::string& text, const std::vector<std::string>& stops, bool include) {
  std::size_t best_end = std::string::npos;
  int best = -1;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::size_t at = text.find(stops[i]);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stops[i].size();
    if (end < best_end || (end == best_end && stops[i].size() > stops[static_cast<std::size_t>(best)].size())) {
      best_end = end;
      best = static_cast<int>(i);
    }
  }
  if (best < 0) return {text, -1};
  return {text.substr(0, include ? best_end : best_end - stops[static_cast<std::size_t>(best)].size()), best};
}

TEST(StopMatcher, FindsAStopStringAcrossPieces) {
  const auto got = run(StopMatcher({"\n\nQ:"}, StopMatcher::Keep::kExclude), {"answer", "\n", "\nQ", ":", "never seen"});
  EXPECT_EQ(got.text, "answer");
  EXPECT_EQ(got.stop, 0);
}

TEST(StopMatcher, NeverShowsTheFirstHalfAndNeverLosesTheTail) {
  StopMatcher matcher({"abc"}, StopMatcher::Keep::kExclude);
  EXPECT_EQ(matcher.push("xa", StopMatcher::Armed::kYes).text, "x");
  EXPECT_EQ(matcher.push("b", StopMatcher::Armed::kYes).text, "");
  EXPECT_EQ(matcher.push("d", StopMatcher::Armed::kYes).text, "abd");
  EXPECT_EQ(matcher.push("ab", StopMatcher::Armed::kYes).text, "");
  EXPECT_EQ(matcher.flush(), "ab");
}

TEST(StopMatcher, HoldsBackOnlyWhatCanStillMatch) {
  StopMatcher matcher({std::string(100, 'z') + "!"}, StopMatcher::Keep::kExclude);
  EXPECT_EQ(matcher.push("long text without any of it", StopMatcher::Armed::kYes).text, "long text without any of it");
  EXPECT_EQ(matcher.push("zz", StopMatcher::Armed::kYes).text, "");
  EXPECT_EQ(matcher.push("y", StopMatcher::Armed::kYes).text, "zzy");
}

TEST(StopMatcher, IncludesTheStopStringWhenAsked) {
  const auto got = run(StopMatcher({"END"}, StopMatcher::Keep::kInclude), {"the E", "ND and more"});
  EXPECT_EQ(got.text, "the END");
}

TEST(StopMatcher, UnarmedPiecesDoNotStopButMayBeginAMatch) {
  StopMatcher matcher({"ab"}, StopMatcher::Keep::kExclude);
  auto step = matcher.push("ab a", StopMatcher::Armed::kNo);
  EXPECT_EQ(step.text, "ab ");
  EXPECT_EQ(step.stop, -1);
  step = matcher.push("b!", StopMatcher::Armed::kYes);
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(step.stop, 0);
}

TEST(StopMatcher, AgreesWithASearchOverTheWholeTextHoweverItIsCut) {
  auto rng = test::seeded_rng();
  const auto below = [&rng](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](std::size_t longest) {
      std::string out(1 + below(longest), 'a');
      for (char& c : out) c = static_cast<char>('a' + below(2));
      return out;
    };
    std::vector<std::string> stops;
    for (std::size_t i = 0, n = below(4); i < n; ++i) stops.push_back(word(5));
    std::size_t longest = 1;
    for (const std::string& s : stops) longest = std::max(longest, s.size());
    const std::string text = word(30);
    const bool include = below(2) == 0;
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min(text.size() - at, below(4));
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    const auto keep = include ? StopMatcher::Keep::kInclude : StopMatcher::Keep::kExclude;
    const Ending got = run(StopMatcher(stops, keep), pieces), want = expect(text, stops, include);
    ASSERT_EQ(got.text, want.text) << text;
    ASSERT_EQ(got.stop < 0, want.stop < 0) << text;
    if (got.stop >= 0) {
      ASSERT_EQ(stops[static_cast<std::size_t>(got.stop)], stops[static_cast<std::size_t>(want.stop)]);
    }
    StopMatcher again(stops, keep);
    std::size_t seen = 0, shown = 0;
    for (const std::string& piece : pieces) {
      const auto step = again.push(piece, StopMatcher::Armed::kYes);
      if (step.stop >= 0) break;
      seen += piece.size();
      shown += step.text.size();
      ASSERT_LE(seen - shown, longest - 1) << "holds back more than a stop string less a byte";
    }
  }
}

}  // namespace
}  // namespace quire::api
