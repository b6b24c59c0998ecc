// Checkpoint bytes into the device's own weight order. Used once per parameter while loading.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "gguf/types.h"
#include "ops/tensors.h"

namespace quire::ops {

struct RawMatrix {
  std::string name;                  // for messages
  DType dtype = DType::kBF16;        // kF32, kF16 or kBF16; pack_fp8_rows: kFp8E4m3
  std::span<const std::byte> bytes;  // row-major, any alignment
  std::int64_t rows = 0, columns = 0;
};

// Rows [0, raw.rows) of `raw` become outputs [first_row, first_row + raw.rows) of a packed weight in `target` (format, k = raw.columns).
// Of the 16- and 32-bit formats. Rounds to nearest even; a finite value that becomes infinite in `format` is refused (kInvalidArgument), naming it.
[[nodiscard]] Status pack_rows(const RawMatrix& raw, WeightFormat format, std::int64_t first_row, void* target);
// Row-major in `format` (embedding tables).
[[nodiscard]] Status store_rows(const RawMatrix& raw, WeightFormat format, void* target);
// As pack_rows, of e4m3 bytes as checkpoints hold them (OCP) into an FP8 format, every number exactly: a stored number times its scale
// stays what it was once the scale is multiplied by ocp_scale_factor(format). A NaN is refused (kCorrupt) with its place. raw.dtype: kFp8E4m3.
[[nodiscard]] Status pack_fp8_rows(const RawMatrix& raw, WeightFormat format, std::int64_t first_row, void* target);
// FNUZ reads OCP's bytes as half their number. Belongs to every scale that a checkpoint states, of weights and of their inputs alike.
[[nodiscard]] constexpr float ocp_scale_factor(WeightFormat format) { return format == WeightFormat::kFp8E4m3Fnuz ? 2.0f : 1.0f; }

// Quantising while loading (--quantization fp8). The scale of a 16- or 32-bit matrix: its largest magnitude over the largest of `format`
// (448; FNUZ: 240); 1 for a matrix of zeros. NaN or infinity is refused (kCorrupt) with its place.
[[nodiscard]] Result<float> quantising_scale(const RawMatrix& raw, WeightFormat format);
// As pack_rows: element / scale, rounded to nearest even and saturating.
[[nodiscard]] Status quantise_rows(const RawMatrix& raw, WeightFormat format, float scale, std::int64_t first_row, void* target);
// A quantised tensor of a GGUF file: rows of whole blocks.
struct RawBlocks {
  std::string name;  // for messages
  gguf::TensorType type = gguf::TensorType::kQ8_0;
  std::span<const std::byte> bytes;
  std::int64_t rows = 0, columns = 0;
};
// The coded format of a quantised GGUF type, and back: one for one.
[[nodiscard]] WeightFormat coded_format(gguf::TensorType type);
// All of a packed matrix [raw.rows, raw.columns] of coded_format(raw.type): coded_bytes() at `target` (ops/coded.h), every number exactly. Outputs that
// fill up the last panel become zero. A scale or offset that is NaN or infinite is refused (kCorrupt) with its place.
[[nodiscard]] Status pack_gguf_rows(const RawBlocks& raw, void* target);
// Float32 (norm weights, biases).
[[nodiscard]] Status store_f32(const RawMatrix& raw, float* target);

}  // namespace quire::ops
