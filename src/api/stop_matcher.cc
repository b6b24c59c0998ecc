#include "api/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire::api {

StopMatcher::StopMatcher(std::vector<std::string> stops, Keep keep) : keep_(keep) {
  for (std::string& stop : stops) {
    QUIRE_CHECK(!stop.empty());
    Pattern pattern;
    pattern.fail.resize(stop.size() + 1, 0);
    for (std::size_t i = 1, k = 0; i < stop.size(); ++i) {
      while (k > 0 && stop[i] != stop[k]) k = pattern.fail[k];
      if (stop[i] == stop[k]) ++k;
      pattern.fail[i + 1] = k;
    }
    pattern.text = std::move(stop);
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::advance(Pattern& p, char c) {
  if (p.matched == p.text.size()) p.matched = p.fail[p.matched];  // a completed match that did not count
  while (p.matched > 0 && p.text[p.matched] != c) p.matched = p.fail[p.matched];
  if (p.text[p.matched] == c) ++p.matched;
}

StopMatcher::Step StopMatcher::push(std::string_view piece, Armed armed) {
  Step step;
  if (patterns_.empty()) {
    step.text = piece;
    return step;
  }
  for (const char c : piece) {
    held_ += c;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& p = patterns_[i];
      advance(p, c);
      if (armed == Armed::kNo || p.matched < p.text.size()) continue;
      if (step.stop < 0 || p.text.size() > stop(step.stop).size()) step.stop = static_cast<int>(i);
    }
    if (step.stop < 0) continue;
    if (keep_ == Keep::kExclude) held_.resize(held_.size() - stop(step.stop).size());
    step.text = std::exchange(held_, {});
    return step;
  }
  // The longest end of the text that some stop string begins with. A whole stop string that did not count holds back only
  // what could still grow into another match.
  std::size_t hold = 0;
  for (const Pattern& p : patterns_) hold = std::max(hold, p.matched == p.text.size() ? p.fail[p.matched] : p.matched);
  step.text = held_.substr(0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return step;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace quire::api
