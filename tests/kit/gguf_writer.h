// Writes small GGUF files for tests, right ones and (through its parts) wrong ones. Shares no code with src/gguf.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::test {

// The bytes of `value` as they lie in memory.
template <class T>
[[nodiscard]] std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3) : version_(version) {}

  // Ids of the format's value and tensor types.
  enum ValueType : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  GgufWriter& pair(std::string_view key, ValueType type, std::string_view bytes);  // bytes as they are: also for nonsense
  GgufWriter& text(std::string_view key, std::string_view value) { return pair(key, kString, string(value)); }
  GgufWriter& u32(std::string_view key, std::uint32_t value) { return pair(key, kU32, raw_bytes(value)); }
  GgufWriter& f32(std::string_view key, float value) { return pair(key, kF32, raw_bytes(value)); }
  GgufWriter& boolean(std::string_view key, bool value) { return pair(key, kBool, raw_bytes(static_cast<std::uint8_t>(value))); }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& i32s(std::string_view key, const std::vector<std::int32_t>& values);
  GgufWriter& f32s(std::string_view key, const std::vector<float>& values);
  // `shape` as the file has it: columns first. Data follow each other, each aligned.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::string_view data);
  // A tensor's header alone, with its offset as given.
  GgufWriter& tensor_header(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::uint64_t offset);
  GgufWriter& data(std::string_view bytes);

  [[nodiscard]] std::string file(std::uint64_t alignment = 32) const;
  // The format's string: a 64-bit length, then the bytes.
  [[nodiscard]] static std::string string(std::string_view text) { return raw_bytes(static_cast<std::uint64_t>(text.size())) + std::string(text); }

 private:
  std::uint32_t version_;
  std::uint64_t pairs_ = 0, tensors_ = 0;
  std::string metadata_, headers_, data_;
};

}  // namespace quire::test
