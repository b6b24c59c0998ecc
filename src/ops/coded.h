// How coded weights lie in memory: GGUF's quantised types, value = scale[group] * code + offset[group] with small integer codes, in panels
// of kPanel outputs. The one place for that order; packing, kernels, the embedding and the self-check read it here.
//
// A panel is a run of super groups of inputs, each of them
//   float16 scale[64], then (if there are offsets) float16 offset[64],
//   then for each of its groups: int8 factor of scale[64] and (if there are offsets) int8 factor of offset[64], where a super group has
//   more groups than one; then the group's codes.
// A stored code is code - least_code: never negative. Eight bits: [group / 4][64][4], inputs rising in the last index. Four bits:
// [group / 8][64][4] bytes, whose low halves are the first four inputs of eight and whose high halves the others.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "ops/tensors.h"

namespace quire::ops {

struct CodedLayout {
  WeightFormat format;
  std::string_view name;     // as GGUF spells it
  int bits, least_code, most_code;
  std::int64_t group;        // inputs that share scale and offset
  std::int64_t groups;       // in a super group
  bool offsets;

  [[nodiscard]] constexpr std::int64_t super_inputs() const { return group * groups; }
  // Bytes of the float16 scales of a super group and perhaps its offsets; of the factors of a group, and of its codes.
  [[nodiscard]] constexpr std::int64_t scale_bytes() const { return kPanel * 2 * (offsets ? 2 : 1); }
  [[nodiscard]] constexpr std::int64_t factor_bytes() const { return groups == 1 ? 0 : kPanel * (offsets ? 2 : 1); }
  [[nodiscard]] constexpr std::int64_t code_bytes() const { return kPanel * group * bits / 8; }
  [[nodiscard]] constexpr std::int64_t super_bytes() const { return scale_bytes() + groups * (factor_bytes() + code_bytes()); }
  [[nodiscard]] constexpr std::int64_t panel_bytes(std::int64_t k) const { return k / super_inputs() * super_bytes(); }
};

inline constexpr std::array kCodedLayouts = {
    CodedLayout{WeightFormat::kQ4_0, "Q4_0", 4, -8, 7, 32, 1, false},    CodedLayout{WeightFormat::kQ4_1, "Q4_1", 4, 0, 15, 32, 1, true},
    CodedLayout{WeightFormat::kQ5_0, "Q5_0", 8, -16, 15, 32, 1, false},  CodedLayout{WeightFormat::kQ5_1, "Q5_1", 8, 0, 31, 32, 1, true},
    CodedLayout{WeightFormat::kQ8_0, "Q8_0", 8, -128, 127, 32, 1, false}, CodedLayout{WeightFormat::kQ4K, "Q4_K", 4, 0, 15, 32, 8, true},
    CodedLayout{WeightFormat::kQ5K, "Q5_K", 8, 0, 31, 32, 8, true},      CodedLayout{WeightFormat::kQ6K, "Q6_K", 8, -32, 31, 16, 16, false},
};
[[nodiscard]] constexpr const CodedLayout& coded_layout(WeightFormat coded) { return kCodedLayouts[static_cast<std::size_t>(coded) - static_cast<std::size_t>(WeightFormat::kQ4_0)]; }
static_assert([] {
  for (const CodedLayout& l : kCodedLayouts)
    if (coded_layout(l.format).format != l.format || kInt8Group % l.group != 0 || l.group % kInt8Sum != 0) return false;
  return true;
}());

// Bytes of a packed [n, k] matrix; k is a multiple of super_inputs().
[[nodiscard]] constexpr std::size_t coded_bytes(WeightFormat coded, std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>((n + kPanel - 1) / kPanel * coded_layout(coded).panel_bytes(k));
}
// Bytes of all parts.
[[nodiscard]] std::size_t coded_bytes(const Weight& w);

// One group of one output.
struct CodedGroup {
  std::array<std::int8_t, kInt8Group> codes;  // the first `group` of them
  float scale, offset;                        // exact
  // Each rounded once, from an exact double.
  [[nodiscard]] float value(std::int64_t i) const {
    return static_cast<float>(static_cast<double>(scale) * static_cast<double>(codes[static_cast<std::size_t>(i)]) + static_cast<double>(offset));
  }
};
// Group `group` (of all groups of the row) of output `output` of a packed matrix with k inputs.
[[nodiscard]] CodedGroup coded_group(const CodedLayout& layout, std::int64_t k, const void* packed, std::int64_t output, std::int64_t group);

// "float16", or "Q4_0".
[[nodiscard]] inline std::string_view weight_format_name(WeightFormat f) { return is_coded(f) ? coded_layout(f).name : std::string_view(dtype_name(storage_dtype(f))); }

}  // namespace quire::ops
