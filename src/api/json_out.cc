#include "api/json_out.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace quire::api {
namespace {

template <class T>
std::string shortest(T number) {
  QUIRE_CHECK(std::isfinite(number)) << "JSON has no such number";
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  std::string out(text.data(), end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace

void append_json_string(std::string& out, std::string_view utf8) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  std::size_t clean = 0;  // [clean, i) needs no escape and is not written yet
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(utf8.substr(clean, i - clean));
    clean = i + 1;
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
    }
  }
  out.append(utf8.substr(clean));
  out += '"';
}

void JsonOut::separate() {
  if (comma_) text_ += ',';
}

void JsonOut::open(char bracket) {
  separate();
  text_ += bracket;
  comma_ = false;
}

void JsonOut::close(char bracket) {
  text_ += bracket;
  comma_ = true;
}

void JsonOut::key(std::string_view name) {
  separate();
  append_json_string(text_, name);
  text_ += ':';
  comma_ = false;
}

void JsonOut::value(std::string_view utf8) {
  separate();
  append_json_string(text_, utf8);
  comma_ = true;
}

void JsonOut::value(float number) { raw(shortest(number)); }
void JsonOut::value(double number) { raw(shortest(number)); }

void JsonOut::raw(std::string_view json) {
  separate();
  text_ += json;
  comma_ = true;
}

}  // namespace quire::api
