// What a fuzz target is, and all of them (targets.def). An entry must end for every input, in memory and time that follow from the
// input's length; what it finds wrong ends the process (QUIRE_CHECK).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire::fuzz {

using Input = std::span<const std::uint8_t>;

#define FUZZ_TARGET(name, entry, corpus, dictionary, max_bytes, mutations) void entry(Input input);
#include "fuzz/targets.def"
#undef FUZZ_TARGET

struct Target {
  std::string_view name;
  void (*entry)(Input);
  std::string_view corpus, dictionary;  // below tests/fuzz
  std::size_t max_bytes;
  int mutations;
};

inline constexpr Target kTargets[] = {
#define FUZZ_TARGET(name, entry, corpus, dictionary, max_bytes, mutations) {#name, entry, corpus, dictionary, max_bytes, mutations},
#include "fuzz/targets.def"
#undef FUZZ_TARGET
};

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

}  // namespace quire::fuzz
