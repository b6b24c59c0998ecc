// Runs the built program in a process of its own and keeps what it said.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kit/temp_dir.h"

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

// The same with `input` as its standard input, a pipe that ends after it.
[[nodiscard]] Ended run_quire_with_input(const std::vector<std::string>& arguments, const std::string& input, const std::vector<std::pair<std::string, std::string>>& variables = {});

// `quire serve` of the shipped model on a free port, until it goes out of scope. Check ready() first.
class RunningServer {
 public:
  explicit RunningServer(const std::vector<std::string>& more = {});
  ~RunningServer();
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  [[nodiscard]] bool ready() const { return !url_.empty(); }
  [[nodiscard]] const std::string& url() const { return url_; }  // "http://127.0.0.1:12345"
  [[nodiscard]] std::string log() const;

 private:
  ::quire::test::TempDir dir_;
  int child_ = -1;
  std::string url_;
};

// `quire` at a terminal of its own, typed at by a test.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  void type(const std::string& keys);  // "\x03" is Ctrl-C, "\x04" Ctrl-D, as a terminal has it
  // Reads what the program shows until `text` was seen after what earlier calls saw; false when two minutes pass or it ends.
  [[nodiscard]] bool shows(const std::string& text);
  [[nodiscard]] int wait();  // its exit status
  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  int master_ = -1, child_ = -1;
  std::string shown_;
  std::size_t seen_ = 0;
};

// The shipped model with a small pool: starts in a moment.
[[nodiscard]] std::vector<std::string> with_tiny_model(const std::string& command, const std::vector<std::string>& more = {});

}  // namespace quire::app_test
