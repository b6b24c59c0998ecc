// Runs the built program in a process of its own and keeps what it said.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace quire::app_test {

enum class Output {
  kCaptured,
  kFullDevice,   // every write fails
  kReaderGone,   // a pipe that nobody reads any more
  kClosed,       // no standard output at all, as after `>&-`
};

struct Ended {
  int status = 0;  // exit status; the signal's negative number when one ended it
  std::string out, err;
};

// `arguments` without the program's name. A run of more than two minutes is ended (status -14).
[[nodiscard]] Ended run_quire(const std::vector<std::string>& arguments, Output output = Output::kCaptured, const std::vector<std::pair<std::string, std::string>>& variables = {});

// The shipped model with a small pool: starts in a moment.
[[nodiscard]] std::vector<std::string> with_tiny_model(const std::string& command, const std::vector<std::string>& more = {});

}  // namespace quire::app_test
