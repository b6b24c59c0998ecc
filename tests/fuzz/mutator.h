// Damaged copies of stored inputs, the same ones in every run: what a fuzz target sees where the compiler has no libFuzzer. Not guided by
// coverage; keeps targets, corpora and dictionaries in working order, and found inputs fixed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::fuzz {

// The words of a dictionary in libFuzzer's form: "text" or name="text" on a line, with \\, \" and \xNN; # begins a comment.
[[nodiscard]] Result<std::vector<std::string>> parse_dictionary(std::string_view text);

class Mutator {
 public:
  // `corpus` is not empty. Nothing that next() gives is longer than `max_bytes`.
  Mutator(std::uint64_t seed, std::vector<std::string> corpus, std::vector<std::string> dictionary, std::size_t max_bytes);
  // One stored input with one to four changes: bytes flipped, erased, repeated or cut, words and numbers put in, the rest taken from another.
  [[nodiscard]] std::string next();

 private:
  [[nodiscard]] std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(random_() % bound); }
  [[nodiscard]] const std::string& any(const std::vector<std::string>& of) { return of[below(of.size())]; }
  [[nodiscard]] std::string number();
  void change(std::string& text);

  std::mt19937_64 random_;
  std::vector<std::string> corpus_, dictionary_;
  std::size_t max_bytes_;
};

}  // namespace quire::fuzz
