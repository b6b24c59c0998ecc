// GGUF's blocks into panels. The numbers stay what they are; only their places change.
#include <cmath>
#include <cstring>

#include "gguf/blocks.h"
#include "ops/coded.h"
#include "ops/pack.h"

namespace quire::ops {
namespace {

void put_half(std::uint8_t* at, float exact) {
  const Float16 half = to_float16(exact);
  std::memcpy(at, &half.bits, sizeof half.bits);
}

// Block `block` as a super group of output `lane` of its panel.
void put_super(const CodedLayout& l, const gguf::Block& block, std::int64_t lane, std::uint8_t* at) {
  put_half(at + lane * 2, block.super_scale);
  if (l.offsets) put_half(at + (kPanel + lane) * 2, block.super_offset);
  at += l.scale_bytes();
  const std::int8_t* code = block.codes.data();
  for (std::int64_t g = 0; g < l.groups; ++g) {
    if (l.groups > 1) {
      at[lane] = static_cast<std::uint8_t>(block.scale_factor[static_cast<std::size_t>(g)]);
      if (l.offsets) at[kPanel + lane] = static_cast<std::uint8_t>(block.offset_factor[static_cast<std::size_t>(g)]);
      at += l.factor_bytes();
    }
    for (std::int64_t i = 0; i < l.group; ++i, ++code) {
      const auto stored = static_cast<std::uint8_t>(*code - l.least_code);
      if (l.bits == 8) {
        at[(i / 4 * kPanel + lane) * 4 + i % 4] = stored;
      } else {
        std::uint8_t& both = at[(i / 8 * kPanel + lane) * 4 + i % 4];
        both = static_cast<std::uint8_t>(i % 8 < 4 ? stored : both | stored << 4);
      }
    }
    at += l.code_bytes();
  }
}

// In the order of the enumeration of GGUF's types.
constexpr gguf::TensorType kTypes[] = {gguf::TensorType::kQ4_0, gguf::TensorType::kQ4_1, gguf::TensorType::kQ5_0, gguf::TensorType::kQ5_1, gguf::TensorType::kQ8_0,
                                       gguf::TensorType::kQ4K,  gguf::TensorType::kQ5K,  gguf::TensorType::kQ6K};
static_assert(std::size(kTypes) == kCodedLayouts.size());

}  // namespace

WeightFormat coded_format(gguf::TensorType type) {
  for (std::size_t i = 0; i < std::size(kTypes); ++i)
    if (kTypes[i] == type) return kCodedLayouts[i].format;
  QUIRE_CHECK(false) << gguf::facts_of(type).name << " is not a quantised type";
  return {};
}

Status pack_gguf_rows(const RawBlocks& raw, void* target) {
  const gguf::TypeFacts& facts = gguf::facts_of(raw.type);
  const CodedLayout& l = coded_layout(coded_format(raw.type));
  QUIRE_CHECK(l.super_inputs() == facts.block_elements && raw.columns % facts.block_elements == 0) << raw.name << ": " << raw.columns << " columns of " << facts.name;
  const std::int64_t blocks = raw.columns / facts.block_elements;
  QUIRE_CHECK_EQ(raw.bytes.size(), static_cast<std::size_t>(raw.rows * blocks * facts.block_bytes)) << raw.name;
  auto* out = static_cast<std::uint8_t*>(target);
  std::memset(out, 0, coded_bytes(l.format, raw.rows, raw.columns));
  const std::byte* bytes = raw.bytes.data();
  gguf::Block block;
  for (std::int64_t r = 0; r < raw.rows; ++r) {
    std::uint8_t* super = out + r / kPanel * l.panel_bytes(raw.columns);
    for (std::int64_t b = 0; b < blocks; ++b, bytes += facts.block_bytes, super += l.super_bytes()) {
      gguf::read_block(raw.type, bytes, block);
      if (!std::isfinite(block.super_scale) || !std::isfinite(block.super_offset))
        return Error{ErrorCode::kCorrupt, raw.name + ": a " + (std::isfinite(block.super_scale) ? "offset" : "scale") + " of elements [" + std::to_string(r) + ", " +
                     std::to_string(b * facts.block_elements) + "] on is NaN or infinite; refusing to serve these weights", {}};
      put_super(l, block, r % kPanel, super);
    }
  }
  return {};
}

}  // namespace quire::ops
