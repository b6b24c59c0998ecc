#include "ops/fp8_kit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "reference/rounding.h"

namespace quire::test {
namespace {

constexpr std::int64_t kGap = 5;  // elements between copies

float random_scale(std::mt19937_64& rng) { return static_cast<float>(std::exp2(static_cast<double>(rng() % 800) / 100.0 - 8.0)); }

}  // namespace

ops::ActFormat input_format_of(ops::WeightFormat format) { return format == ops::WeightFormat::kFp8E4m3 ? ops::ActFormat::kFp8E4m3 : ops::ActFormat::kFp8E4m3Fnuz; }

const char* scaling_name(ops::ActScaling scaling) {
  switch (scaling) {
    case ops::ActScaling::kNone: return "none";
    case ops::ActScaling::kStatic: return "static";
    case ops::ActScaling::kPerToken: return "per_token";
    case ops::ActScaling::kPerGroup: return "per_group";
  }
  return "?";
}

QuantisedActs::QuantisedActs(std::int64_t r, std::int64_t c, const ops::InputQuant& q, std::size_t misalign)
    : rows(r), columns(c), stride(q.copies() == 1 ? 0 : r * c + kGap), quant(q),
      buffer(ops::storage_dtype(q.format), static_cast<std::size_t>(r * c + (q.copies() - 1) * stride), misalign),
      scales(DType::kF32, static_cast<std::size_t>(std::max<std::int64_t>(1, r * q.row_scales(c)))) {}

ops::ActTensor QuantisedActs::tensor() {
  return ops::ActTensor{TensorView::dense(buffer.bytes().data(), ops::storage_dtype(quant.format), {rows, columns}), quant,
                        quant.row_scales(columns) == 0 ? nullptr : scales.as<float>().data(), stride};
}

std::vector<reference::Quantised> QuantisedActs::numbers() {
  std::vector<reference::Quantised> out;
  const std::vector<double> all = buffer.values(), computed = scales.values();
  for (int copy = 0; copy < quant.copies(); ++copy) {
    const auto first = all.begin() + copy * stride;
    const std::int64_t groups = std::max<std::int64_t>(1, quant.row_scales(columns));
    reference::Quantised q{reference::Matrix(rows, columns, std::vector<double>(first, first + rows * columns)), reference::Matrix(rows, groups)};
    for (std::size_t i = 0; i < q.scales.values.size(); ++i) q.scales.values[i] = quant.scaling == ops::ActScaling::kStatic ? static_cast<double>(quant.scales[static_cast<std::size_t>(copy)]) : computed[i];
    out.push_back(std::move(q));
  }
  return out;
}

std::vector<reference::Quantised> reference_quantised(const reference::Matrix& x, const ops::InputQuant& quant) {
  const DType fp8 = ops::storage_dtype(quant.format);
  if (quant.scaling == ops::ActScaling::kPerToken) return {reference::quantise_by_row(x, fp8)};
  if (quant.scaling == ops::ActScaling::kPerGroup) return {reference::quantise_by_group(x, fp8, 128)};
  QUIRE_CHECK(quant.scaling == ops::ActScaling::kStatic);
  std::vector<reference::Quantised> out;
  for (int copy = 0; copy < quant.copies(); ++copy) out.push_back(reference::quantise_with(x, fp8, static_cast<double>(quant.scales[static_cast<std::size_t>(copy)])));
  return out;
}

Fp8Weight::Fp8Weight(ops::WeightFormat format, ops::ActScaling scaling, const Fp8Shape& s, bool with_bias, std::mt19937_64& rng)
    : numbers{reference::Matrix(s.n, s.k), reference::Matrix(s.n, 1)}, memory(ops::storage_dtype(format), ops::Weight::packed_bytes(format, s.n, s.k)) {
  const DType dtype = ops::storage_dtype(format);
  const std::int64_t group = s.scale_group == 0 ? s.k : s.scale_group, groups = ops::Weight::scale_rows(s.k, group), width = (s.n + 63) / 64 * 64;
  numbers.scales = reference::Matrix(s.n, groups);
  scales.assign(static_cast<std::size_t>(ops::Weight::scales_elements(s.n, s.k, group)), std::nanf(""));
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t k = 0; k < s.k; ++k) {
      std::uint32_t bits = rng() & 0xffu;
      if (std::isnan(reference::decode(dtype, bits))) bits = 0;
      numbers.stored.at(n, k) = reference::decode(dtype, bits);
      memory.bytes()[static_cast<std::size_t>(n / 64 * 64 * s.k + k * 64 + n % 64)] = static_cast<std::byte>(bits);
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      const float scale = random_scale(rng);
      numbers.scales.at(n, g) = static_cast<double>(scale);
      scales[static_cast<std::size_t>(g * width + n)] = scale;
    }
  }
  if (with_bias)
    for (std::int64_t n = 0; n < s.n; ++n) bias.push_back(static_cast<float>(static_cast<double>(rng() % 2000) / 500.0 - 2.0));
  weight = ops::Weight{.format = format, .n = s.n, .k = s.k, .packed = memory.bytes().data(), .bias = bias.empty() ? nullptr : bias.data(), .scales = scales.data(), .scale_group = group, .num_parts = s.num_parts};
  // Parts begin at different outputs, anywhere.
  std::vector<std::int64_t> borders;
  while (std::ssize(borders) < s.num_parts - 1) {
    const auto at = static_cast<std::int64_t>(1 + rng() % static_cast<std::uint64_t>(s.n - 1));
    if (std::ranges::find(borders, at) == borders.end()) borders.push_back(at);
  }
  std::ranges::sort(borders);
  std::ranges::copy(borders, weight.first_rows.begin() + 1);
  if (scaling == ops::ActScaling::kNone) return;
  weight.input = ops::InputQuant{input_format_of(format), scaling, scaling == ops::ActScaling::kStatic ? s.num_scales : 0, {}};
  for (int i = 0; i < weight.input.num_scales; ++i) weight.input.scales[static_cast<std::size_t>(i)] = random_scale(rng) / 16.0f;
}

}  // namespace quire::test
