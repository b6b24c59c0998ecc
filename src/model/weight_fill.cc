#include "model/weight_fill.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/fp8_scale.h"
#include "model/finite_scan.h"
#include "model/float_values.h"
#include "ops/pack.h"

namespace quire::model {
namespace {

Error refused(const ParameterSpec& p, std::size_t element, const std::string& why) {
  return Error{ErrorCode::kCorrupt, p.name + ": element " + std::to_string(element) + " is " + why + "; refusing to serve these weights", {}};
}

// In the device's encoding.
Result<std::vector<float>> read_scales(const ParameterSpec& p, const WeightSource::Raw& raw, float factor) {
  std::vector<float> values = float_values(raw.dtype, raw.bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    if (!(x > 0) || !std::isfinite(x)) return refused(p, i, shown_scale(x) + ", and a scale is finite and above 0");
    values[i] = x * factor;
    if (!fp8::is_scale(values[i]))
      return refused(p, i, shown_scale(x) + (factor == 1.0f ? "" : " (twice that for FNUZ)") + ", and a scale is from " + scale_text(fp8::kLeastScale) + " to " + scale_text(fp8::kMostScale));
  }
  return values;
}

Status fill_weight_scales(const ParameterSpec& p, const WeightSource::Raw& raw, const PartScales& to, float factor) {
  const auto values = read_scales(p, raw, factor);
  if (!values.ok()) return values.error();
  const auto at = [&](std::int64_t i) { return values.value()[static_cast<std::size_t>(i)]; };
  if (p.shape.empty()) {
    to.set([&](std::int64_t, std::int64_t) { return at(0); });
  } else if (p.shape.size() == 1) {
    to.set([&](std::int64_t r, std::int64_t) { return at(r); });
  } else {
    const std::int64_t blocks = p.shape[1];
    QUIRE_CHECK_EQ(blocks, ceil_div(to.k, to.group)) << p.name;
    to.set([&](std::int64_t r, std::int64_t g) { return at(r / kScaleBlock * blocks + g); });
  }
  return {};
}

Status fill_quantised_rows(const ops::RawMatrix& matrix, const Destination& to, ops::WeightFormat format) {
  std::vector<float> scales(static_cast<std::size_t>(matrix.rows));
  const std::size_t row_bytes = matrix.rows == 0 ? 0 : matrix.bytes.size() / static_cast<std::size_t>(matrix.rows);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    const ops::RawMatrix row{matrix.name, matrix.dtype, matrix.bytes.subspan(static_cast<std::size_t>(r) * row_bytes, row_bytes), 1, matrix.columns};
    const auto scale = ops::quantising_scale(row, format);
    if (!scale.ok()) return scale.error();
    scales[static_cast<std::size_t>(r)] = scale.value();
    QUIRE_RETURN_IF_ERROR(ops::quantise_rows(row, format, scale.value(), to.first_row + r, to.target));
  }
  to.scales.set([&](std::int64_t r, std::int64_t) { return scales[static_cast<std::size_t>(r)]; });
  return {};
}

// The sum is float32's, as where it is added at each use.
Status fill_vector(const ops::RawMatrix& matrix, float* to, float added) {
  QUIRE_RETURN_IF_ERROR(ops::store_f32(matrix, to));
  if (added != 0.0f)
    for (std::int64_t i = 0; i < matrix.rows * matrix.columns; ++i) to[i] += added;
  return {};
}

}  // namespace

Status fill(const ParameterSpec& p, const WeightSource::Raw& raw, const Destination& to, const FillFormats& formats) {
  if (const auto bad = first_non_finite(raw.dtype, raw.bytes)) return refused(p, *bad, "NaN or infinite");
  const ops::RawMatrix matrix{p.name, raw.dtype, raw.bytes, p.shape.size() == 2 ? p.shape[0] : 1, p.shape.empty() ? 1 : p.shape.back()};
  const float factor = ops::ocp_scale_factor(formats.fp8);
  switch (to.kind) {
    case Destination::Kind::kPacked: return ops::pack_rows(matrix, formats.plain, to.first_row, to.target);
    case Destination::Kind::kRowMajor: return ops::store_rows(matrix, formats.plain, to.target);
    case Destination::Kind::kFloat: return fill_vector(matrix, static_cast<float*>(to.target), to.added);
    case Destination::Kind::kFp8: return ops::pack_fp8_rows(matrix, formats.fp8, to.first_row, to.target);
    case Destination::Kind::kQuantised: {
      const auto scale = ops::quantising_scale(matrix, formats.fp8);
      if (!scale.ok()) return scale.error();
      to.scales.set([&](std::int64_t, std::int64_t) { return scale.value(); });
      return ops::quantise_rows(matrix, formats.fp8, scale.value(), to.first_row, to.target);
    }
    case Destination::Kind::kQuantisedRows: return fill_quantised_rows(matrix, to, formats.fp8);
    case Destination::Kind::kBlocks: QUIRE_CHECK(false) << p.name << " is no row of numbers"; return {};
    case Destination::Kind::kWeightScale: return fill_weight_scales(p, raw, to.scales, factor);
    case Destination::Kind::kInputScale: {
      const auto values = read_scales(p, raw, factor);
      if (!values.ok()) return values.error();
      *static_cast<float*>(to.target) = values.value().front();
      return {};
    }
  }
  return {};
}

Status fill_blocks(const ParameterSpec& p, const WeightSource::Blocks& blocks, const Destination& to) {
  QUIRE_CHECK(to.kind == Destination::Kind::kBlocks) << p.name;
  return ops::pack_gguf_rows({p.name, blocks.type, blocks.bytes, p.shape[0], p.shape[1]}, to.target);
}

}  // namespace quire::model
