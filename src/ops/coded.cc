#include "ops/coded.h"

#include <cstring>

namespace quire::ops {

std::size_t coded_bytes(const Weight& w) {
  std::size_t bytes = 0;
  for (int p = 0; p < w.num_parts; ++p) bytes += coded_bytes(w.coded[static_cast<std::size_t>(p)].format, w.part_rows(p), w.k);
  return bytes;
}

CodedGroup coded_group(const CodedLayout& layout, std::int64_t k, const void* packed, std::int64_t output, std::int64_t group) {
  const std::int64_t lane = output % kPanel, in_super = group % layout.groups;
  const auto* panel = static_cast<const std::uint8_t*>(packed) + output / kPanel * layout.panel_bytes(k);
  const std::uint8_t* super = panel + group / layout.groups * layout.super_bytes();
  const std::uint8_t* factors = super + layout.scale_bytes() + in_super * (layout.factor_bytes() + layout.code_bytes());
  const std::uint8_t* codes = factors + layout.factor_bytes();
  const auto half = [&](std::int64_t at) {
    Float16 x{};
    std::memcpy(&x.bits, super + (at * kPanel + lane) * 2, sizeof x.bits);
    return to_float(x);
  };
  const auto factor = [&](std::int64_t at) { return layout.groups == 1 ? 1.0f : static_cast<float>(static_cast<std::int8_t>(factors[at * kPanel + lane])); };
  CodedGroup out{};
  out.scale = half(0) * factor(0);
  out.offset = layout.offsets ? half(1) * factor(1) : 0.0f;
  for (std::int64_t i = 0; i < layout.group; ++i) {
    const int stored = layout.bits == 8 ? codes[(i / 4 * kPanel + lane) * 4 + i % 4] : codes[(i / 8 * kPanel + lane) * 4 + i % 4] >> (i % 8 / 4 * 4) & 15;
    out.codes[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(stored + layout.least_code);
  }
  return out;
}

}  // namespace quire::ops
