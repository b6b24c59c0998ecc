#include "gguf/cursor.h"

#include <bit>

namespace quire::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF values are read as they lie in the file");

Result<std::string_view> Cursor::string(const std::string& what, std::uint64_t max_bytes) {
  const auto length = number<std::uint64_t>("the length of " + what);
  if (!length.ok()) return length.error();
  if (length.value() > max_bytes)
    return corrupt(what + " has a length of " + std::to_string(length.value()) + " bytes, at most " + std::to_string(max_bytes) + " are allowed");
  if (length.value() > left()) return truncated(what, length.value());
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, length.value());
  at_ += length.value();
  return text;
}

Error Cursor::corrupt(const std::string& text) const { return Error{ErrorCode::kCorrupt, file_ + ": " + text, {}}; }
Error Cursor::unsupported(const std::string& text) const { return Error{ErrorCode::kUnsupported, file_ + ": " + text, {}}; }

Error Cursor::truncated(const std::string& what, std::uint64_t need) const {
  return corrupt("truncated: " + what + " takes " + std::to_string(need) + " bytes at offset " + std::to_string(at_) + ", the file has " + std::to_string(left()) + " left");
}

}  // namespace quire::gguf
