// Names in the messages of the weight ledger. Internal to model/.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace quire::model {

inline constexpr char kLmHead[] = "lm_head.weight";

// "a, b, c and 12 more"
[[nodiscard]] inline std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 10;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNamed) text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return text;
}

}  // namespace quire::model
