// Reads little-endian values from bytes that anybody may have written. Internal to gguf/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::gguf {

// Every read checks what is left first; an error (kCorrupt) starts with the file's name and says where the bytes ran out.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  template <class T>
  [[nodiscard]] Result<T> number(const std::string& what) {
    if (left() < sizeof(T)) return truncated(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));  // hosts are little-endian (cursor.cc asserts it)
    at_ += sizeof(T);
    return value;
  }
  // A 64-bit length and so many bytes; lengths over `max_bytes` are refused. The view is into the file.
  [[nodiscard]] Result<std::string_view> string(const std::string& what, std::uint64_t max_bytes);

  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] Error corrupt(const std::string& text) const;
  [[nodiscard]] Error unsupported(const std::string& text) const;

 private:
  [[nodiscard]] Error truncated(const std::string& what, std::uint64_t need) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  std::uint64_t at_ = 0;
};

}  // namespace quire::gguf
