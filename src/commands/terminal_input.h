// Lines from standard input and Ctrl-C as an event instead of the program's end. The terminal itself edits the line; knows nothing of what
// lines mean.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire::commands {

// While one exists, SIGINT is caught, on whichever thread it arrives. One at a time.
class Interrupts {
 public:
  // Errors: the system has no descriptors left.
  [[nodiscard]] static Result<std::unique_ptr<Interrupts>> open();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  [[nodiscard]] bool take();        // whether one came since the last call
  [[nodiscard]] int fd() const;     // readable while one is there

 private:
  Interrupts() = default;
};

class LineInput {
 public:
  enum class What : std::uint8_t { kLine, kEnd, kInterrupt };
  struct Read {
    What what = What::kEnd;
    std::string line;  // without its end
  };
  // `interrupts` may be null; else it must outlive this.
  explicit LineInput(Interrupts* interrupts);
  ~LineInput();
  LineInput(const LineInput&) = delete;
  LineInput& operator=(const LineInput&) = delete;
  // The last line need not end. Errors: standard input cannot be read, a line of more than a mebibyte.
  [[nodiscard]] Result<Read> next();

 private:
  Interrupts* interrupts_;
  int terminal_ = -1;  // standard input opened once more; -1: it is no terminal
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace quire::commands
