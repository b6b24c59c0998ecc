// How one checkpoint parameter gets to its place in the arena. Internal to model/.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "model/checkpoint.h"
#include "ops/tensors.h"

namespace quire::model {

// The scales of one part of a packed weight.
struct PartScales {
  float* scales = nullptr;       // of the whole weight, as ops::Weight has them
  std::int64_t stride = 0;       // outputs of the whole weight, padded
  std::int64_t first_row = 0, rows = 0;
  std::int64_t k = 0, group = 0;  // inputs, and how many share a scale
  // Of all rows and groups: `value(row, group)`, rows counted in the part.
  template <class Value>
  void set(Value value) const {
    for (std::int64_t g = 0; g < ops::Weight::scale_rows(k, group); ++g)
      for (std::int64_t r = 0; r < rows; ++r) scales[g * stride + first_row + r] = value(r, g);
  }
};

struct Destination {
  enum class Kind : std::uint8_t {
    kPacked,       // a matrix, in the served 16- or 32-bit type
    kRowMajor,     // an embedding table, the same
    kFloat,        // a vector of float32
    kFp8,          // a matrix of FP8 bytes
    kQuantised,    // a 16- or 32-bit matrix, to FP8 on the way
    kQuantisedRows, // the same, with a scale for each row
    kBlocks,       // a matrix in a GGUF file's blocks (fill_blocks)
    kWeightScale,
    kInputScale,   // one float on the host
  } kind = Kind::kFloat;
  void* target = nullptr;
  std::int64_t first_row = 0;
  PartScales scales = {};  // kQuantised, kQuantisedRows, kWeightScale
  float added = 0.0f;      // kFloat: to each element
};

struct FillFormats {
  ops::WeightFormat plain = ops::WeightFormat::kBF16;
  ops::WeightFormat fp8 = ops::WeightFormat::kFp8E4m3;
};

// Refused (kCorrupt), naming parameter and element: NaN and infinity; a scale that is not above 0, or too large or small for float32 to
// multiply with. Scales of a file are OCP's; for FNUZ they are doubled here and nowhere else.
[[nodiscard]] Status fill(const ParameterSpec& parameter, const WeightSource::Raw& raw, const Destination& to, const FillFormats& formats);

// The blocks of a whole matrix, every number exactly. Refused (kCorrupt), naming the parameter: a scale that is NaN or infinite.
[[nodiscard]] Status fill_blocks(const ParameterSpec& parameter, const WeightSource::Blocks& blocks, const Destination& to);

}  // namespace quire::model
