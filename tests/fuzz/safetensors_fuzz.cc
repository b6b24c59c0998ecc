// Any bytes as a safetensors file: parsing ends in an error, or every promise of SafetensorsHeader holds.
#include "base/check.h"
#include "fuzz/target.h"
#include "model/safetensors.h"

void quire::fuzz::fuzz_safetensors(Input input) {
  const auto file = std::as_bytes(input);
  auto header = model::parse_safetensors(file, "input");
  if (!header.ok()) {
    QUIRE_CHECK(!header.error().message.empty());
    return;
  }
  std::uint64_t covered = 0;
  for (const auto& entry : header->entries) {
    QUIRE_CHECK_EQ(entry.begin, covered);
    covered = entry.end;
  }
  QUIRE_CHECK_EQ(header->data_offset + covered, file.size());
}
