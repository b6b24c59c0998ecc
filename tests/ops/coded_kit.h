// Coded weights and int8 inputs for the tests of operations: blocks of GGUF packed for kernels and, the same numbers, for the reference.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gguf/types.h"
#include "kit/guarded_buffer.h"
#include "ops/coded.h"
#include "reference/coded.h"

namespace quire::test {

inline constexpr gguf::TensorType kCodedTypes[] = {gguf::TensorType::kQ4_0, gguf::TensorType::kQ4_1, gguf::TensorType::kQ5_0, gguf::TensorType::kQ5_1,
                                                   gguf::TensorType::kQ8_0, gguf::TensorType::kQ4K,  gguf::TensorType::kQ5K,  gguf::TensorType::kQ6K};

// Blocks of [rows, columns] with random codes and factors and float16 scales and offsets of every size from 2^-10 to 4, zeros among them. `fill` 0 or
// 255: all codes and factors of these bits.
[[nodiscard]] std::string random_blocks(gguf::TensorType type, std::int64_t rows, std::int64_t columns, std::mt19937_64& rng, int fill = -1);

// An int8 tensor in guarded memory.
struct Int8Acts {
  Int8Acts(std::int64_t rows, std::int64_t columns, std::size_t misalign = 0);
  [[nodiscard]] ops::ActTensor tensor();
  [[nodiscard]] reference::Quantised numbers();
  // The stored sums, [rows, columns / 16].
  [[nodiscard]] reference::Matrix sums();
  [[nodiscard]] std::string damage() const { return buffer.damage() + floats.damage(); }
  std::int64_t rows, columns;
  GuardedBuffer buffer, floats;
};

struct CodedWeight {
  struct Part {
    gguf::TensorType type;
    std::int64_t rows;
  };
  CodedWeight(const std::vector<Part>& parts, std::int64_t k, bool with_bias, std::mt19937_64& rng, int fill = -1);
  // Of an output, by its place in the whole weight.
  [[nodiscard]] reference::Coded numbers(std::int64_t output) const;
  reference::Matrix values;  // [n, k], as the reference reads the blocks
  std::vector<float> bias;
  std::vector<GuardedBuffer> memory;
  ops::Weight weight;
};

}  // namespace quire::test
