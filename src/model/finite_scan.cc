#include "model/finite_scan.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace quire::model {
namespace {

// An IEEE value is not finite exactly when its exponent bits are all ones. Blocks are copied out (the file gives no alignment)
// and tested without a branch per element; only a block with a hit is searched.
template <class Word>
std::optional<std::uint64_t> scan(std::span<const std::byte> bytes, Word exponent) {
  constexpr std::size_t kBlock = 1024;
  std::array<Word, kBlock> block;
  const std::size_t count = bytes.size() / sizeof(Word);
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = count - first < kBlock ? count - first : kBlock;
    if (n < kBlock) block.fill(0);
    std::memcpy(block.data(), bytes.data() + first * sizeof(Word), n * sizeof(Word));
    Word hit = 0;
    for (std::size_t i = 0; i < kBlock; ++i) hit = static_cast<Word>(hit | ((block[i] & exponent) == exponent ? 1 : 0));
    if (hit == 0) continue;
    for (std::size_t i = 0; i < n; ++i)
      if ((block[i] & exponent) == exponent) return first + i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> first_non_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32: return scan<std::uint32_t>(bytes, 0x7f800000u);
    case DType::kF16: return scan<std::uint16_t>(bytes, 0x7c00u);
    case DType::kBF16: return scan<std::uint16_t>(bytes, 0x7f80u);
    case DType::kFp8E4m3: return scan<std::uint8_t>(bytes, 0x7fu);  // no infinity: all ones are NaN
    case DType::kFp8E5m2: return scan<std::uint8_t>(bytes, 0x7cu);
    case DType::kFp8E4m3Fnuz:  // of no checkpoint
    case DType::kI32:
    case DType::kI64:
    case DType::kU8: break;
  }
  QUIRE_CHECK(false) << "not a float type: " << dtype_name(dtype);
  return std::nullopt;
}

}  // namespace quire::model
