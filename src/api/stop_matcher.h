// Finds stop strings in text that arrives in pieces. Works byte by byte, so the result does not depend on where pieces end:
// the stop string that completes first wins; of several that complete at the same byte, the longest. Holds back exactly the
// tail that could still become a stop string, never more than the longest one less a byte. Owned by one choice; knows no tokens.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::api {

class StopMatcher {
 public:
  enum class Keep : unsigned char { kExclude, kInclude };  // the stop string itself in the text

  // `stops`: each non-empty. No stops: everything passes through.
  StopMatcher(std::vector<std::string> stops, Keep keep);

  struct Step {
    std::string text;        // safe to show
    int stop = -1;           // index of the stop string that completed in this piece, -1: none; nothing follows it
  };
  enum class Armed : unsigned char { kNo, kYes };  // kNo: a stop string that completes inside this piece does not count (min_tokens)
  [[nodiscard]] Step push(std::string_view piece, Armed armed);
  // The held-back tail; the text has ended.
  [[nodiscard]] std::string flush();
  [[nodiscard]] const std::string& stop(int index) const { return patterns_[static_cast<std::size_t>(index)].text; }

 private:
  // Knuth-Morris-Pratt: `matched` bytes of `text` equal the end of what was seen; `fail[k]` is the longest proper border of text[0, k).
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fail;
    std::size_t matched = 0;
  };
  static void advance(Pattern& pattern, char c);

  std::vector<Pattern> patterns_;
  Keep keep_;
  std::string held_;  // seen, not shown
};

}  // namespace quire::api
