#include "gguf/blocks.h"

#include <cstring>

#include "base/check.h"
#include "base/dtype.h"

namespace quire::gguf {
namespace {

// All numbers of a block are unsigned bytes here; a float16 is two of them.
using Bytes = const std::uint8_t*;

float half_at(Bytes at) {
  Float16 value{};
  std::memcpy(&value.bits, at, sizeof value.bits);
  return to_float(value);
}

std::int8_t code(int value) { return static_cast<std::int8_t>(value); }

void one_group(Block& out, float scale, float offset) {
  out.elements = out.group = 32;
  out.scale[0] = out.super_scale = scale;
  out.offset[0] = out.super_offset = offset;
  out.scale_factor[0] = out.offset_factor[0] = 1;
}

// 32 codes of 4 bits: byte j holds element j below and element j + 16 above; bit i of `high` is the fifth bit of element i.
void nibbles(Bytes packed, std::uint32_t high, int subtract, Block& out) {
  for (std::size_t j = 0; j < 16; ++j) {
    out.codes[j] = code(((packed[j] & 15) | static_cast<int>((high >> j) & 1u) << 4) - subtract);
    out.codes[j + 16] = code(((packed[j] >> 4) | static_cast<int>((high >> (j + 16)) & 1u) << 4) - subtract);
  }
}

std::uint32_t word_at(Bytes at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void read_q8_0(Bytes b, Block& out) {
  one_group(out, half_at(b), 0.0f);
  std::memcpy(out.codes.data(), b + 2, 32);
}

// The eight 6-bit scales and minima of Q4_K and Q5_K, in 12 bytes: the first four of each lie in the low bits of bytes 0..3 and 4..7; the
// others have their low four bits in bytes 8..11 and their two high bits on top of the first ones.
void read_k_groups(Bytes b, Block& out) {
  const float d = half_at(b), d_min = half_at(b + 2);
  Bytes s = b + 4;
  for (std::size_t g = 0; g < 8; ++g) {
    int scale = 0, least = 0;
    if (g < 4) {
      scale = s[g] & 63;
      least = s[g + 4] & 63;
    } else {
      scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
      least = (s[g + 4] >> 4) | (s[g] >> 6) << 4;
    }
    out.scale[g] = d * static_cast<float>(scale);
    out.offset[g] = -d_min * static_cast<float>(least);
    out.scale_factor[g] = code(scale);
    out.offset_factor[g] = code(least);
  }
  out.super_scale = d;
  out.super_offset = -d_min;
  out.elements = 256;
  out.group = 32;
}

// Groups 2c and 2c + 1 are the low and high nibbles of 32 bytes; `high`, if any, has one more bit per element: bit g of byte l.
void read_k_codes(Bytes low, Bytes high, Block& out) {
  for (std::size_t g = 0; g < 8; ++g)
    for (std::size_t l = 0; l < 32; ++l) {
      const int nibble = (low[32 * (g / 2) + l] >> (4 * (g % 2))) & 15;
      out.codes[32 * g + l] = code(nibble | (high == nullptr ? 0 : ((high[l] >> g) & 1) << 4));
    }
}

// Two halves of 128 elements: 64 bytes of low nibbles, 32 bytes with two high bits for each of four elements, 8 signed scales.
void read_q6_k(Bytes b, Block& out) {
  const float d = half_at(b + 208);
  for (std::size_t half = 0; half < 2; ++half) {
    Bytes low = b + 64 * half, high = b + 128 + 32 * half;
    for (std::size_t quarter = 0; quarter < 4; ++quarter)
      for (std::size_t l = 0; l < 32; ++l) {
        const int nibble = (low[32 * (quarter % 2) + l] >> (4 * (quarter / 2))) & 15;
        out.codes[128 * half + 32 * quarter + l] = code((nibble | ((high[l] >> (2 * quarter)) & 3) << 4) - 32);
      }
  }
  for (std::size_t g = 0; g < 16; ++g) {
    out.scale_factor[g] = static_cast<std::int8_t>(b[192 + g]);
    out.offset_factor[g] = 0;
    out.scale[g] = d * static_cast<float>(out.scale_factor[g]);
    out.offset[g] = 0.0f;
  }
  out.super_scale = d;
  out.super_offset = 0.0f;
  out.elements = 256;
  out.group = 16;
}

void dequantise_block(const Block& block, float* out) {
  for (std::int64_t i = 0; i < block.elements; ++i) {
    const auto at = static_cast<std::size_t>(i), group = static_cast<std::size_t>(i / block.group);
    // Exact in double (51 bits at most), then rounded once.
    out[i] = static_cast<float>(static_cast<double>(block.scale[group]) * block.codes[at] + static_cast<double>(block.offset[group]));
  }
}

template <class T>
void widen(std::span<const std::byte> bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = to_float(value);
  }
}

}  // namespace

void read_block(TensorType type, const std::byte* bytes, Block& out) {
  Bytes b = reinterpret_cast<Bytes>(bytes);
  switch (type) {
    case TensorType::kQ4_0: one_group(out, half_at(b), 0.0f); return nibbles(b + 2, 0, 8, out);
    case TensorType::kQ4_1: one_group(out, half_at(b), half_at(b + 2)); return nibbles(b + 4, 0, 0, out);
    case TensorType::kQ5_0: one_group(out, half_at(b), 0.0f); return nibbles(b + 6, word_at(b + 2), 16, out);
    case TensorType::kQ5_1: one_group(out, half_at(b), half_at(b + 2)); return nibbles(b + 8, word_at(b + 4), 0, out);
    case TensorType::kQ8_0: return read_q8_0(b, out);
    case TensorType::kQ4K: read_k_groups(b, out); return read_k_codes(b + 16, nullptr, out);
    case TensorType::kQ5K: read_k_groups(b, out); return read_k_codes(b + 48, b + 16, out);
    case TensorType::kQ6K: return read_q6_k(b, out);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16: break;
  }
  QUIRE_CHECK(false) << facts_of(type).name << " has no blocks";
}

void dequantise(TensorType type, std::span<const std::byte> bytes, std::span<float> out) {
  const TypeFacts& facts = facts_of(type);
  const auto elements = static_cast<std::int64_t>(out.size());
  QUIRE_CHECK_EQ(elements % facts.block_elements, 0);
  QUIRE_CHECK_EQ(static_cast<std::int64_t>(bytes.size()), elements / facts.block_elements * facts.block_bytes);
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  } else if (type == TensorType::kF16) {
    widen<Float16>(bytes, out);
  } else if (type == TensorType::kBF16) {
    widen<BFloat16>(bytes, out);
  } else {
    Block block;
    for (std::int64_t i = 0; i < elements / facts.block_elements; ++i) {
      read_block(type, bytes.data() + i * facts.block_bytes, block);
      dequantise_block(block, out.data() + i * facts.block_elements);
    }
  }
}

}  // namespace quire::gguf
