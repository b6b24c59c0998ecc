// One safetensors file: its header parsed and proven to describe the data section exactly. Internal to model/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::model {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // one of the names of safetensors_dtype_bytes
  std::vector<std::int64_t> shape;   // every length >= 0
  std::uint64_t begin = 0, end = 0;  // byte range inside the data section
};

struct SafetensorsHeader {
  std::uint64_t data_offset = 0;          // where the data section starts in the file
  std::vector<SafetensorsEntry> entries;  // by position in the data section
};

// Bytes of one element: 8, 4, 2 or 1; 0 for a dtype that this build does not know.
[[nodiscard]] std::size_t safetensors_dtype_bytes(std::string_view dtype);

// Checks everything the format promises, so that every entry's range can be read without a further check: header length at most
// 100 MB and inside the file; known dtypes; shape times element size (checked arithmetic) equals the range; ranges cover the data
// section with no gap, no overlap and nothing left over. Zero-size tensors are allowed. `file` starts every error (kCorrupt).
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file_bytes, const std::string& file);

}  // namespace quire::model
