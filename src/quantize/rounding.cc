#include "quantize/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/fp8_scale.h"

namespace quire::quantize {
namespace {

std::int64_t blocks_of(std::int64_t n) { return (n + model::kScaleBlock - 1) / model::kScaleBlock; }

// One row as float32.
class RowReader {
 public:
  explicit RowReader(const Matrix& m) : m_(m), row_(static_cast<std::size_t>(m.columns)) {
    QUIRE_CHECK_EQ(m.bytes.size(), static_cast<std::size_t>(m.rows * m.columns) * dtype_bytes(m.dtype)) << m.name;
  }
  const std::vector<float>& read(std::int64_t row) {
    const std::size_t size = dtype_bytes(m_.dtype), n = row_.size();
    const std::byte* at = m_.bytes.data() + static_cast<std::size_t>(row) * n * size;
    if (m_.dtype == DType::kF32) {
      std::memcpy(row_.data(), at, n * size);
      return row_;
    }
    QUIRE_CHECK(m_.dtype == DType::kF16 || m_.dtype == DType::kBF16) << dtype_name(m_.dtype);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, at + i * size, size);
      row_[i] = m_.dtype == DType::kF16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
    }
    return row_;
  }

 private:
  const Matrix& m_;
  std::vector<float> row_;
};

// Which scale element (row, column) has.
std::size_t scale_index(model::WeightScaling kind, std::int64_t row, std::int64_t column, std::int64_t columns) {
  if (kind == model::WeightScaling::kTensor) return 0;
  if (kind == model::WeightScaling::kChannel) return static_cast<std::size_t>(row);
  return static_cast<std::size_t>(row / model::kScaleBlock * blocks_of(columns) + column / model::kScaleBlock);
}

}  // namespace

std::vector<std::int64_t> scale_shape(model::WeightScaling kind, std::int64_t rows, std::int64_t columns) {
  if (kind == model::WeightScaling::kTensor) return {};
  if (kind == model::WeightScaling::kChannel) return {rows, 1};
  return {blocks_of(rows), blocks_of(columns)};
}

Result<std::vector<float>> weight_scales(const Matrix& m, model::WeightScaling kind) {
  std::size_t count = 1;
  for (const std::int64_t n : scale_shape(kind, m.rows, m.columns)) count *= static_cast<std::size_t>(n);
  std::vector<float> scales(count, 0.0f);
  RowReader reader(m);
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const std::vector<float>& row = reader.read(r);
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const float x = std::fabs(row[static_cast<std::size_t>(c)]);
      if (!std::isfinite(x)) return Error{ErrorCode::kCorrupt, m.name + ": element [" + std::to_string(r) + ", " + std::to_string(c) + "] is NaN or infinite", {}};
      float& most = scales[scale_index(kind, r, c, m.columns)];
      most = std::max(most, x);
    }
  }
  for (float& s : scales) s = fp8::scale_of(s, fp8::kLargestE4m3);
  return scales;
}

void round_rows(const Matrix& m, model::WeightScaling kind, std::span<const float> scales, RowRange rows, std::span<std::uint8_t> out) {
  QUIRE_CHECK_EQ(out.size(), static_cast<std::size_t>(rows.count * m.columns)) << m.name;
  RowReader reader(m);
  std::size_t at = 0;
  for (std::int64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const std::vector<float>& row = reader.read(r);
    for (std::int64_t c = 0; c < m.columns; ++c) out[at++] = fp8::encode(fp8::kE4m3, row[static_cast<std::size_t>(c)] / scales[scale_index(kind, r, c, m.columns)]);
  }
}

}  // namespace quire::quantize
