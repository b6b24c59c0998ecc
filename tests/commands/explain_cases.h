// The two source threads' command lines and the devices that explain must answer them for; shared by the test and the tool that refreshes
// the golden files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commands/explain.h"

namespace quire::commands::test {

inline constexpr std::string_view kGoldenDevices[] = {"cpu", "sm90", "gfx90a", "gfx942", "gfx950", "gfx1100"};

struct ThreadLine {
  const char* title;
  config::EnvVariables variables;
  std::vector<std::string> arguments;  // after `quire explain`
  ModelFacts facts;
};
// #20295 (an FP8 checkpoint with KV scales over two ranks) and #25104 (FP8 weights, chosen with the attention variable alone).
[[nodiscard]] const std::vector<ThreadLine>& thread_lines();

// `arguments` and `--device` as `quire explain` takes them. The test's own mistakes end the program.
[[nodiscard]] Result<Explanation> explained(std::vector<std::string> arguments, const ModelFacts& facts, const config::EnvVariables& variables = {});
// What `quire explain MODEL --scales` prints for checkpoints of every kind, under several flags: the text of the golden file kScalesGolden.
inline constexpr std::string_view kScalesGolden = "explain_scales.txt";
[[nodiscard]] std::string scales_golden_text();

// Both threads' answers for one device: the golden file's text.
[[nodiscard]] std::string golden_text(std::string_view device);

}  // namespace quire::commands::test
