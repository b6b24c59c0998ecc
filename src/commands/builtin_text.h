// The text that ships inside the program: what the KV gate and --calculate-kv-scales run through a model when nobody gives another.
#pragma once
#include <string_view>

namespace quire::commands {

// ASCII, some 400 words of prose, numbers, lists and code, the same in every release of one version: scales and verdicts follow from it.
[[nodiscard]] std::string_view builtin_text();

}  // namespace quire::commands
