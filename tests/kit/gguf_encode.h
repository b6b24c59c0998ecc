// Numbers into the element types of GGUF files, plainly: near the numbers, not nearest. Shares no code with src/gguf or the twin.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire::test {

// The id of an element type in a file: 0 for "F32".
[[nodiscard]] std::uint32_t gguf_type_id(std::string_view type);
// `values` as whole blocks of `type`. Ends the process for another name and for a part of a block.
[[nodiscard]] std::string gguf_encode(std::string_view type, std::span<const float> values);

}  // namespace quire::test
