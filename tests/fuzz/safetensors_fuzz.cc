// Any bytes as a safetensors file: parsing ends in an error, or every promise of SafetensorsHeader holds.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  auto header = quire::model::parse_safetensors(file, "input");
  if (!header.ok()) return 0;
  std::uint64_t covered = 0;
  for (const auto& entry : header->entries) {
    QUIRE_CHECK_EQ(entry.begin, covered);
    covered = entry.end;
  }
  QUIRE_CHECK_EQ(header->data_offset + covered, file.size());
  return 0;
}
