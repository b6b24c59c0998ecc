#include "ops/pack.h"

#include <cmath>

#include "ops/coded.h"
#include "ops/pack_place.h"

namespace quire::ops {
namespace {

template <class T>
T rounded(float x);
template <>
float rounded<float>(float x) { return x; }
template <>
BFloat16 rounded<BFloat16>(float x) { return to_bfloat16(x); }
template <>
Float16 rounded<Float16>(float x) { return to_float16(x); }

template <class From, class To>
Status convert(const RawMatrix& raw, const Place& place, To* target) {
  for (std::int64_t r = 0; r < raw.rows; ++r) {
    for (std::int64_t c = 0; c < raw.columns; ++c) {
      const float x = as_float(load_at<From>(raw.bytes.data(), r * raw.columns + c));
      const To y = rounded<To>(x);
      if (std::isinf(as_float(y)) && !std::isinf(x))
        return invalid(raw.name + ": value " + std::to_string(x) + " at [" + std::to_string(r) + ", " + std::to_string(c) + "] does not fit the chosen dtype", "--dtype");
      target[place.at(r, c)] = y;
    }
  }
  return {};
}

template <class To>
Status convert_any(const RawMatrix& raw, const Place& place, To* target) {
  QUIRE_CHECK_EQ(raw.bytes.size(), static_cast<std::size_t>(raw.rows * raw.columns) * dtype_bytes(raw.dtype)) << raw.name;
  switch (raw.dtype) {
    case DType::kF32: return convert<float>(raw, place, target);
    case DType::kF16: return convert<Float16>(raw, place, target);
    case DType::kBF16: return convert<BFloat16>(raw, place, target);
    default: return Error{ErrorCode::kUnsupported, raw.name + ": weights of type " + dtype_name(raw.dtype) + " are not supported", {}};
  }
}

Status convert_to(const RawMatrix& raw, WeightFormat format, const Place& place, void* target) {
  switch (format) {
    case WeightFormat::kF32: return convert_any(raw, place, static_cast<float*>(target));
    case WeightFormat::kF16: return convert_any(raw, place, static_cast<Float16*>(target));
    case WeightFormat::kBF16: return convert_any(raw, place, static_cast<BFloat16*>(target));
    default: QUIRE_CHECK(false) << raw.name << ": " << weight_format_name(format) << " is not one of the 16- and 32-bit formats";
  }
  return {};
}

}  // namespace

Status pack_rows(const RawMatrix& raw, WeightFormat format, std::int64_t first_row, void* target) { return convert_to(raw, format, Place{kPanel, raw.columns, first_row}, target); }
Status store_rows(const RawMatrix& raw, WeightFormat format, void* target) { return convert_to(raw, format, Place{1, raw.columns, 0}, target); }
Status store_f32(const RawMatrix& raw, float* target) { return convert_any(raw, Place{1, raw.columns, 0}, target); }

}  // namespace quire::ops
