// Any bytes as a GGUF file: parsing ends in an error, or every tensor lies in the file and no two share a byte.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "gguf/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = quire::gguf::File::parse(bytes, "input");
  if (!file.ok()) return 0;
  QUIRE_CHECK_LE(file->data_offset(), size);
  const std::byte* covered = bytes.data() + file->data_offset();
  for (const auto& tensor : file->tensors()) {
    QUIRE_CHECK(tensor.bytes.data() >= covered && tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + size) << tensor.name;
    covered = tensor.bytes.data() + tensor.bytes.size();
  }
  return 0;
}
