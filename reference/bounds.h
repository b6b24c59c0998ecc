// Error bounds for results computed in a working precision, derived as in Higham, "Accuracy and Stability of Numerical Algorithms"
// (2nd ed.), chapters 2 and 3: unit roundoff u, gamma_n = n u / (1 - n u). They hold for every order of summation, with or without
// fused multiply-add, and assume that the inputs are the same numbers on both sides. No literal tolerance belongs in a check.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "reference/attention.h"
#include "reference/coded.h"
#include "reference/matrix.h"
#include "reference/quantise.h"

namespace quire::reference {

// How a kernel computes: every operation rounds in `work`, the result is rounded once more to `output`.
struct Precision {
  DType work = DType::kF32;
  DType output = DType::kF32;
  // Largest relative error of its exp and log in units of `work`'s u (4 for the polynomial kernels and for a libm; state another).
  double transcendental_ulps = 4.0;
  // Attention rescales its partial sums at most once per this many keys (a cell).
  std::int64_t attention_part_tokens = 16;
  // What the scales of an FP8 cache add to each score and to each output: 1 for one more product. Keys and values are given unscaled
  // times scale, exactly.
  std::int64_t cache_scale_roundings = 0;
};

[[nodiscard]] double unit_roundoff(DType dtype);          // half a unit in the last place of 1: 2^-24, 2^-11, 2^-8; e4m3 2^-4, e5m2 2^-3
[[nodiscard]] double smallest_subnormal(DType dtype);     // half of it is the absolute error of a rounding that underflows
[[nodiscard]] double gamma(std::int64_t n, DType dtype);  // ends the process when n u >= 1: no bound exists
// Error of rounding a result near `value`, known with `error`, to `output`.
[[nodiscard]] double rounding_error(double value, double error, DType output);

// Each of these gives one bound per element of the twin's result, for the kernel of the same name. Underflow in `work` is covered.
[[nodiscard]] std::vector<double> linear_bounds(const reference::Matrix& x, const reference::Matrix& w, std::span<const double> bias,
                                                const Precision& precision);
// Inputs are given as they are stored: float32, or FP8 whose products are exact in `work`. One chain for each `group` inputs, the groups'
// scaled sums added up.
[[nodiscard]] std::vector<double> linear_scaled_bounds(const reference::Quantised& x, const reference::Quantised& w, std::int64_t group,
                                                       std::span<const double> bias, const Precision& precision);
// Sums of a group are exact; sum times both scales, and the inputs' sum times the input's scale and the offset, are added up group after group.
[[nodiscard]] std::vector<double> linear_coded_bounds(const reference::Quantised& x, const reference::Coded& w, std::span<const double> bias, const Precision& precision);
// How far int8 inputs move a linear's result from that of the float32 inputs they were made of: half a step of each input, and what the quotient
// before it lost. To be added to linear_coded_bounds.
[[nodiscard]] std::vector<double> int8_input_bounds(const reference::Quantised& x, const reference::Matrix& w);
[[nodiscard]] std::vector<double> rms_norm_bounds(const reference::Matrix& x, std::span<const double> weight, double eps, const Precision& precision);
[[nodiscard]] std::vector<double> silu_mul_bounds(const reference::Matrix& gate_up, const Precision& precision);
[[nodiscard]] std::vector<double> gelu_tanh_mul_bounds(const reference::Matrix& gate_up, const Precision& precision);
// What a soft cap adds to the error of its argument, which it never magnifies; `capped` is the exact result.
[[nodiscard]] double soft_cap_error(double capped, double cap, const Precision& precision);
// For given angles whose cos and sin are rounded to `work` (what the engine's table does). `errors`: of each element of x; empty: x is exact.
[[nodiscard]] std::vector<double> rope_bounds(const reference::Matrix& x, std::span<const std::int64_t> positions,
                                              std::span<const double> frequencies, double attention_scale, const Precision& precision,
                                              std::span<const double> errors = {});

// One head: query [D], keys and values [n, D] as the cache holds them. Covers any split of the sequence into parts of at least
// attention_part_tokens whose partial results are combined by rescaling, and a scale folded into the query or into base-2 exponents.
// Not probabilities that are stored in 16 bit.
struct AttentionBounds {
  reference::HeadOutput exact = {};  // the twin's result, which the bounds are about
  std::vector<double> out = {};      // [D]
  double lse = 0.0;
};
[[nodiscard]] AttentionBounds attend_bounds(std::span<const double> query, const reference::Matrix& keys, const reference::Matrix& values,
                                            const reference::ScoreRule& rule, const Precision& precision);
[[nodiscard]] inline AttentionBounds attend_bounds(std::span<const double> query, const reference::Matrix& keys, const reference::Matrix& values,
                                                   double scale, const Precision& precision) {
  return attend_bounds(query, keys, values, reference::ScoreRule{.scale = scale}, precision);
}

// log_softmax of the same logits.
[[nodiscard]] std::vector<double> log_softmax_bounds(std::span<const double> logits, const Precision& precision);

}  // namespace quire::reference
