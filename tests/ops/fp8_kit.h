// FP8 weights and inputs for the tests of operations: packed for kernels and, the same numbers, for the reference.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "kit/guarded_buffer.h"
#include "ops/tensors.h"
#include "reference/quantise.h"

namespace quire::test {

inline constexpr ops::WeightFormat kFp8Weights[] = {ops::WeightFormat::kFp8E4m3, ops::WeightFormat::kFp8E4m3Fnuz};
[[nodiscard]] ops::ActFormat input_format_of(ops::WeightFormat format);
// "float8_e4m3fn_static" and such, for names of tests.
[[nodiscard]] const char* scaling_name(ops::ActScaling scaling);

// A quantised tensor in guarded memory; copies one after another with a gap.
struct QuantisedActs {
  QuantisedActs(std::int64_t rows, std::int64_t columns, const ops::InputQuant& quant, std::size_t misalign = 0);
  [[nodiscard]] ops::ActTensor tensor();
  // What is stored, one for each copy; bytes decoded by the reference.
  [[nodiscard]] std::vector<reference::Quantised> numbers();
  [[nodiscard]] std::string damage() const { return buffer.damage() + scales.damage(); }
  std::int64_t rows, columns, stride;
  ops::InputQuant quant;
  GuardedBuffer buffer, scales;
};

// What the reference makes of x, one for each copy.
[[nodiscard]] std::vector<reference::Quantised> reference_quantised(const reference::Matrix& x, const ops::InputQuant& quant);

struct Fp8Shape {
  std::int64_t m, n, k;
  std::int64_t scale_group;  // of weights; 0: k
  int num_parts = 1;
  int num_scales = 1;        // static ones
};

// Random numbers of every magnitude of the format, random scales, parts that begin anywhere.
struct Fp8Weight {
  Fp8Weight(ops::WeightFormat format, ops::ActScaling scaling, const Fp8Shape& shape, bool with_bias, std::mt19937_64& rng);
  reference::Quantised numbers;  // [n, k], scales [n, groups]
  std::vector<float> bias, scales;
  GuardedBuffer memory;          // lanes past the last output are NaN: they must reach nothing
  ops::Weight weight;
};

}  // namespace quire::test
