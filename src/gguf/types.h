// Element types of GGUF tensors: their ids in the file, names and block sizes. What a block holds is blocks.h.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire::gguf {

// The types that are read. Q4_0 to Q8_0 have blocks of 32 elements, the K types super-blocks of 256.
enum class TensorType : std::uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4K, kQ5K, kQ6K };

struct TypeFacts {
  TensorType type;
  std::uint32_t id;       // in the file
  std::string_view name;  // "Q4_K"
  std::int64_t block_elements, block_bytes;
};

// Every type that is read, in the order of the enumeration.
[[nodiscard]] std::span<const TypeFacts> all_types();
[[nodiscard]] const TypeFacts& facts_of(TensorType type);
// nullptr: not a type that is read.
[[nodiscard]] const TypeFacts* type_of_id(std::uint32_t id);
[[nodiscard]] const TypeFacts* type_of_name(std::string_view name);
// For messages: "IQ2_XS (17)" or "(99)".
[[nodiscard]] std::string type_text(std::uint32_t id);
// "F32, F16, ..."
[[nodiscard]] std::string all_type_names();

[[nodiscard]] constexpr bool is_quantised(TensorType type) { return type > TensorType::kBF16; }

}  // namespace quire::gguf
