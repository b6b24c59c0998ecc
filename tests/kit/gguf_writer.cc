#include "kit/gguf_writer.h"

namespace quire::test {
namespace {

std::string padded(std::string bytes, std::uint64_t alignment) {
  while (bytes.size() % alignment != 0) bytes.push_back('\0');
  return bytes;
}

}  // namespace

GgufWriter& GgufWriter::pair(std::string_view key, ValueType type, std::string_view bytes) {
  metadata_ += string(key) + raw_bytes(static_cast<std::uint32_t>(type)) + std::string(bytes);
  ++pairs_;
  return *this;
}

GgufWriter& GgufWriter::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = raw_bytes(static_cast<std::uint32_t>(kString)) + raw_bytes(static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) bytes += string(value);
  return pair(key, kArray, bytes);
}

GgufWriter& GgufWriter::i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  std::string bytes = raw_bytes(static_cast<std::uint32_t>(kI32)) + raw_bytes(static_cast<std::uint64_t>(values.size()));
  for (const std::int32_t value : values) bytes += raw_bytes(value);
  return pair(key, kArray, bytes);
}

GgufWriter& GgufWriter::f32s(std::string_view key, const std::vector<float>& values) {
  std::string bytes = raw_bytes(static_cast<std::uint32_t>(kF32)) + raw_bytes(static_cast<std::uint64_t>(values.size()));
  for (const float value : values) bytes += raw_bytes(value);
  return pair(key, kArray, bytes);
}

GgufWriter& GgufWriter::tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::string_view bytes) {
  data_ = padded(std::move(data_), 32);
  tensor_header(name, shape, type, data_.size());
  return data(bytes);
}

GgufWriter& GgufWriter::tensor_header(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::uint64_t offset) {
  headers_ += string(name) + raw_bytes(static_cast<std::uint32_t>(shape.size()));
  for (const std::uint64_t length : shape) headers_ += raw_bytes(length);
  headers_ += raw_bytes(type) + raw_bytes(offset);
  ++tensors_;
  return *this;
}

GgufWriter& GgufWriter::data(std::string_view bytes) {
  data_ += bytes;
  return *this;
}

std::string GgufWriter::file(std::uint64_t alignment) const {
  const std::string head = "GGUF" + raw_bytes(version_) + raw_bytes(tensors_) + raw_bytes(pairs_) + metadata_ + headers_;
  return padded(head, alignment) + data_;
}

}  // namespace quire::test
