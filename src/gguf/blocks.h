// What the blocks of GGUF's types hold. Every quantised type is scale[group] * code + offset[group] with small integer codes; only where
// the bits lie differs. Twin: reference/gguf_blocks.h.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/types.h"

namespace quire::gguf {

inline constexpr std::int64_t kMaxBlockElements = 256;
inline constexpr std::int64_t kMaxGroups = 16;

// One block of a quantised type. Scales and offsets are exact in float (a float16 times at most an 8-bit integer): scale[g] = super_scale *
// scale_factor[g], offset[g] = super_offset * offset_factor[g]. Blocks of one group have factors of 1.
struct Block {
  std::array<std::int8_t, kMaxBlockElements> codes;  // Q4_0 -8..7, Q4_1 and Q4_K 0..15, Q5_0 -16..15, Q5_1 and Q5_K 0..31, Q6_K -32..31, Q8_0 -128..127
  std::array<float, kMaxGroups> scale, offset;       // of each group
  float super_scale = 0.0f, super_offset = 0.0f;     // exact in float16
  std::array<std::int8_t, kMaxGroups> scale_factor, offset_factor;
  std::int64_t elements = 0, group = 0;              // elements in the block, and in a group: 32, or 16 (Q6_K)
};

// `bytes`: one block of `type`, which is a quantised one.
void read_block(TensorType type, const std::byte* bytes, Block& out);

// Rows of whole blocks to floats: `bytes` holds out.size() elements. Exact for F32, F16 and BF16, else each value rounded once to float.
void dequantise(TensorType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace quire::gguf
