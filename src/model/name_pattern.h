// Patterns over module names, as quantisers write them into configs. A pattern from a file costs its length times the name's to match and
// no more: it becomes an automaton whose states are followed side by side, so nothing backtracks. Internal to model/.
#pragma once
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::model {

class NamePattern {
 public:
  static constexpr std::size_t kMaxBytes = 512;  // of a pattern's text
  // Python's re.match: from the name's first character on, to wherever the pattern ends. Literals, `.`, sets, \d \w \s and their opposites,
  // groups, `|`, `*` `+` `?` (greedy or lazy: the answer is the same), `^` and `$`. Refused by name: counts ({2,3}), lookaround, flags,
  // back-references, word boundaries. Errors have no file; the caller knows it.
  [[nodiscard]] static Result<NamePattern> regex(std::string_view text);
  // Python's fnmatch: the whole name; `*`, `?` and [sets].
  [[nodiscard]] static Result<NamePattern> glob(std::string_view text);

  [[nodiscard]] bool matches(std::string_view name) const;

 private:
  friend class PatternCompiler;
  using ByteSet = std::bitset<256>;
  enum class Step : std::uint8_t {
    kBytes,   // one byte of a set, then `next`
    kFork,    // `next` and `other` without a byte
    kJump,    // `next`
    kBegin,   // `next` at the name's start
    kEnd,     // `next` at its end
    kAccept,
  };
  struct State {
    Step step = Step::kAccept;
    std::uint32_t next = 0, other = 0;  // of kBytes, `other` is the set's place in sets_
  };
  // Adds to `reached` what stands at a byte or accepts once `state` is entered, `at` bytes into the name.
  void follow(std::uint32_t state, std::string_view name, std::size_t at, std::vector<std::uint32_t>& reached, std::vector<bool>& seen) const;

  std::vector<State> states_;
  std::vector<ByteSet> sets_;
  std::uint32_t start_ = 0;
};

}  // namespace quire::model
