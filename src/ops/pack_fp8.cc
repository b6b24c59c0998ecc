// FP8 weights: a checkpoint's own bytes, and quantising of wider ones while loading.
#include <algorithm>
#include <cmath>

#include "base/fp8_scale.h"
#include "ops/pack.h"
#include "ops/pack_place.h"

namespace quire::ops {
namespace {

Error broken(const RawMatrix& raw, std::int64_t row, std::int64_t column, const char* what) {
  return Error{ErrorCode::kCorrupt, raw.name + ": element [" + std::to_string(row) + ", " + std::to_string(column) + "] is " + what + "; refusing to serve these weights", {}};
}

const fp8::Encoding& encoding_of(WeightFormat format) {
  QUIRE_CHECK(is_fp8(format)) << dtype_name(storage_dtype(format));
  return format == WeightFormat::kFp8E4m3 ? fp8::kE4m3 : fp8::kE4m3Fnuz;
}

// visit(row, column, number) -> Status for all elements, in order, until one fails.
template <class T, class Visit>
Status each_of(const RawMatrix& raw, Visit visit) {
  for (std::int64_t r = 0; r < raw.rows; ++r)
    for (std::int64_t c = 0; c < raw.columns; ++c) QUIRE_RETURN_IF_ERROR(visit(r, c, as_float(load_at<T>(raw.bytes.data(), r * raw.columns + c))));
  return {};
}

template <class Visit>
Status each(const RawMatrix& raw, Visit visit) {
  QUIRE_CHECK_EQ(raw.bytes.size(), static_cast<std::size_t>(raw.rows * raw.columns) * dtype_bytes(raw.dtype)) << raw.name;
  switch (raw.dtype) {
    case DType::kF32: return each_of<float>(raw, visit);
    case DType::kF16: return each_of<Float16>(raw, visit);
    case DType::kBF16: return each_of<BFloat16>(raw, visit);
    default: return Error{ErrorCode::kUnsupported, raw.name + ": weights of type " + dtype_name(raw.dtype) + " are not quantised while loading", {}};
  }
}

}  // namespace

Status pack_fp8_rows(const RawMatrix& raw, WeightFormat format, std::int64_t first_row, void* target) {
  QUIRE_CHECK(raw.dtype == DType::kFp8E4m3) << raw.name << ": " << dtype_name(raw.dtype);
  QUIRE_CHECK_EQ(raw.bytes.size(), static_cast<std::size_t>(raw.rows * raw.columns)) << raw.name;
  const bool unsigned_zero = encoding_of(format).unsigned_zero;
  const Place place{kPanel, raw.columns, first_row};
  auto* out = static_cast<std::uint8_t*>(target);
  for (std::int64_t r = 0; r < raw.rows; ++r) {
    for (std::int64_t c = 0; c < raw.columns; ++c) {
      auto bits = load_at<std::uint8_t>(raw.bytes.data(), r * raw.columns + c);
      if ((bits & 0x7fu) == fp8::kE4m3.nan) return broken(raw, r, c, "NaN");
      // OCP's -0 is FNUZ's NaN; every other pattern is the same number with the other bias.
      if (unsigned_zero && bits == 0x80) bits = 0;
      out[place.at(r, c)] = bits;
    }
  }
  return {};
}

Result<float> quantising_scale(const RawMatrix& raw, WeightFormat format) {
  float largest = 0.0f;
  QUIRE_RETURN_IF_ERROR(each(raw, [&](std::int64_t r, std::int64_t c, float x) -> Status {
    if (!std::isfinite(x)) return broken(raw, r, c, "NaN or infinite");
    largest = std::max(largest, std::fabs(x));
    return {};
  }));
  const fp8::Encoding& encoding = encoding_of(format);
  return fp8::scale_of(largest, fp8::decode(encoding, encoding.largest));
}

Status quantise_rows(const RawMatrix& raw, WeightFormat format, float scale, std::int64_t first_row, void* target) {
  QUIRE_CHECK(std::isfinite(scale) && scale > 0.0f) << raw.name << ": scale " << scale;
  const fp8::Encoding& encoding = encoding_of(format);
  const Place place{kPanel, raw.columns, first_row};
  auto* out = static_cast<std::uint8_t*>(target);
  return each(raw, [&](std::int64_t r, std::int64_t c, float x) -> Status {
    if (!std::isfinite(x)) return broken(raw, r, c, "NaN or infinite");
    out[place.at(r, c)] = fp8::encode(encoding, x / scale);
    return {};
  });
}

}  // namespace quire::ops
