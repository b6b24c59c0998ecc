// Writes JSON text front to back with the commas in the right places. Used for every answer, streamed or not, so that one
// float is one spelling everywhere. Strings must be valid UTF-8. Knows no schema.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::api {

class JsonOut {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(std::string_view utf8);
  void value(const char* utf8) { value(std::string_view(utf8)); }
  void value(const std::string& utf8) { value(std::string_view(utf8)); }
  void value(bool flag) { raw(flag ? "true" : "false"); }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void value(T number) { raw(std::to_string(number)); }
  // Shortest text that reads back as this float, always with a point or an exponent. Must be finite.
  void value(float number);
  void value(double number);
  void null() { raw("null"); }
  // Text that is JSON already.
  void raw(std::string_view json);

  template <class T>
  void field(std::string_view name, const T& content) {
    key(name);
    value(content);
  }
  void null_field(std::string_view name) {
    key(name);
    null();
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void separate();
  void open(char bracket);
  void close(char bracket);

  std::string text_;
  bool comma_ = false;
};

// `utf8` as a quoted JSON string, appended to `out`.
void append_json_string(std::string& out, std::string_view utf8);

}  // namespace quire::api
