#include "config/problems.h"

namespace quire::config {

Error Problems::to_error() const {
  QUIRE_CHECK(!errors_.empty());
  if (errors_.size() == 1) return errors_.front();
  Error joined{errors_.front().code, std::to_string(errors_.size()) + " problems:", {}};  // no one flag
  for (const Error& error : errors_) {
    joined.message += "\n  - ";
    for (const char c : error.message) joined.message += c == '\n' ? std::string("\n    ") : std::string(1, c);  // an error that lists several itself
  }
  return joined;
}

std::string quote_value(std::string_view value) {
  constexpr std::size_t kMost = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : value.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
      continue;
    }
    out += "\\x";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out + (value.size() > kMost ? "...'" : "'");
}

}  // namespace quire::config
