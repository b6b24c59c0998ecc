#include "reference/gguf_blocks.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace quire::reference {
namespace {

// One block seen as bits: bit 0 is the lowest of byte 0.
class Bits {
 public:
  explicit Bits(std::span<const std::byte> block) : block_(block) {}

  // `count` bits from bit `first`, the first one lowest.
  [[nodiscard]] int field(std::size_t first, std::size_t count) const {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bit = first + i;
      if (((std::to_integer<unsigned>(block_[bit / 8]) >> (bit % 8)) & 1u) != 0) value += 1 << i;
    }
    return value;
  }
  [[nodiscard]] int byte(std::size_t at) const { return field(8 * at, 8); }
  [[nodiscard]] int signed_byte(std::size_t at) const { return byte(at) >= 128 ? byte(at) - 256 : byte(at); }
  // IEEE 754 binary16 at byte `at`.
  [[nodiscard]] double half(std::size_t at) const {
    const int fraction = field(8 * at, 10), exponent = field(8 * at + 10, 5);
    const double sign = field(8 * at + 15, 1) == 1 ? -1.0 : 1.0;
    if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
  }

 private:
  std::span<const std::byte> block_;
};

// Where element i of a 32-element block has its nibble: the low halves of 16 bytes first, then the high halves.
int nibble(const Bits& b, std::size_t first_byte, std::size_t i) { return b.field(8 * (first_byte + i % 16) + (i < 16 ? 0 : 4), 4); }

double q4_0(const Bits& b, std::size_t i) { return b.half(0) * (nibble(b, 2, i) - 8); }
double q4_1(const Bits& b, std::size_t i) { return b.half(0) * nibble(b, 4, i) + b.half(2); }
double q5_0(const Bits& b, std::size_t i) { return b.half(0) * (nibble(b, 6, i) + 16 * b.field(16 + i, 1) - 16); }
double q5_1(const Bits& b, std::size_t i) { return b.half(0) * (nibble(b, 8, i) + 16 * b.field(32 + i, 1)) + b.half(2); }
double q8_0(const Bits& b, std::size_t i) { return b.half(0) * b.signed_byte(2 + i); }

// The 6-bit scale (which = 0) or minimum (which = 1) of group g in the 12 bytes from byte 4 on. Groups 0 to 3: the low 6 bits of their
// byte. Groups 4 to 7: low 4 bits in bytes 8 to 11 (scales below, minima above), high 2 bits on top of group g - 4's byte.
int k_six_bits(const Bits& b, std::size_t g, std::size_t which) {
  const std::size_t base = 4;
  if (g < 4) return b.field(8 * (base + 4 * which + g), 6);
  return b.field(8 * (base + 8 + g - 4) + 4 * which, 4) + 16 * b.field(8 * (base + 4 * which + g - 4) + 6, 2);
}

// Super-blocks: 32-element groups in pairs, the first in the low nibbles of 32 bytes, the second in the high ones.
int k_nibble(const Bits& b, std::size_t first_byte, std::size_t i) { return b.field(8 * (first_byte + 32 * (i / 64) + i % 32) + ((i / 32) % 2 == 0 ? 0 : 4), 4); }
double k_value(const Bits& b, std::size_t i, int code) { return b.half(0) * k_six_bits(b, i / 32, 0) * code - b.half(2) * k_six_bits(b, i / 32, 1); }
double q4_k(const Bits& b, std::size_t i) { return k_value(b, i, k_nibble(b, 16, i)); }
// The fifth bit of element i is bit i / 32 of byte 16 + i % 32.
double q5_k(const Bits& b, std::size_t i) { return k_value(b, i, k_nibble(b, 48, i) + 16 * b.field(8 * (16 + i % 32) + i / 32, 1)); }

// 6-bit codes: the low nibble in 128 bytes, the two high bits in 64; halves of 128 elements; one signed scale for 16 elements.
double q6_k(const Bits& b, std::size_t i) {
  const std::size_t half = i / 128, quarter = i % 128 / 32, l = i % 32;
  const int low = b.field(8 * (64 * half + 32 * (quarter % 2) + l) + (quarter < 2 ? 0 : 4), 4);
  const int high = b.field(8 * (128 + 32 * half + l) + 2 * quarter, 2);
  return b.half(208) * b.signed_byte(192 + i / 16) * (low + 16 * high - 32);
}

struct Format {
  std::string_view name;
  std::size_t elements, bytes;
  double (*element)(const Bits&, std::size_t);
};
constexpr Format kFormats[] = {{"Q4_0", 32, 18, q4_0}, {"Q4_1", 32, 20, q4_1}, {"Q5_0", 32, 22, q5_0}, {"Q5_1", 32, 24, q5_1}, {"Q8_0", 32, 34, q8_0}, {"Q4_K", 256, 144, q4_k}, {"Q5_K", 256, 176, q5_k}, {"Q6_K", 256, 210, q6_k}};

}  // namespace

std::vector<double> gguf_dequantise(std::string_view type, std::span<const std::byte> bytes) {
  const Format* format = nullptr;
  for (const Format& f : kFormats)
    if (f.name == type) format = &f;
  QUIRE_CHECK(format != nullptr) << type << " is no quantised GGUF type";
  QUIRE_CHECK_EQ(bytes.size() % format->bytes, 0u);
  std::vector<double> out;
  for (std::size_t block = 0; block < bytes.size() / format->bytes; ++block) {
    const Bits bits(bytes.subspan(block * format->bytes, format->bytes));
    for (std::size_t i = 0; i < format->elements; ++i) out.push_back(format->element(bits, i));
  }
  return out;
}

}  // namespace quire::reference
