// Everything that is wrong with a command line, collected so that a user sees it at once instead of one mistake per start.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::config {

class Problems {
 public:
  void add(Error error) { errors_.push_back(std::move(error)); }
  // `message` starts with the flag as the user wrote it.
  void add(std::string param, std::string message) { errors_.push_back(invalid(std::move(message), std::move(param))); }
  void add(const Status& status) {
    if (!status.ok()) errors_.push_back(status.error());
  }
  [[nodiscard]] bool empty() const { return errors_.empty(); }
  [[nodiscard]] const std::vector<Error>& all() const { return errors_; }
  // One problem: itself. Several: one Error whose message lists them, one per line,
  // and whose code is the first one's. Never call when empty().
  [[nodiscard]] Error to_error() const;

 private:
  std::vector<Error> errors_;
};

// A value from outside for a message: control characters escaped, at most 80 bytes, in single quotes.
[[nodiscard]] std::string quote_value(std::string_view value);

}  // namespace quire::config
