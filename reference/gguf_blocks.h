// Quantised GGUF tensors in double arithmetic, element by element from the format's definition. Shares nothing with src/gguf.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace quire::reference {

// Every element of `bytes`, whole blocks of `type`: "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K" or "Q6_K". Any other name, and a
// part of a block, end the process.
[[nodiscard]] std::vector<double> gguf_dequantise(std::string_view type, std::span<const std::byte> bytes);

}  // namespace quire::reference
