#include "reference/bounds.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "reference/attention.h"
#include "reference/coded.h"
#include "reference/linear.h"
#include "reference/logprobs.h"
#include "reference/norm.h"
#include "reference/quantise.h"
#include "reference/silu_mul.h"

namespace quire::reference {
namespace {

using reference::Matrix;

// Exponents of the smallest normal number and of the unit in the last place of 1.
struct Shape {
  int min_exponent, fraction_bits, max_exponent;
};

Shape shape_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {-126, 23, 127};
    case DType::kF16: return {-14, 10, 15};
    case DType::kBF16: return {-126, 7, 127};
    case DType::kFp8E4m3: return {-6, 3, 8};
    case DType::kFp8E4m3Fnuz: return {-7, 3, 7};
    case DType::kFp8E5m2: return {-14, 2, 15};
    default: QUIRE_CHECK(false) << dtype_name(dtype);
  }
  return {};
}

// What an operation may lose when its result is subnormal, also on hardware that flushes those to zero.
double underflow(DType work) { return std::ldexp(1.0, shape_of(work).min_exponent); }

std::int64_t ceil_of(double x) { return static_cast<std::int64_t>(std::ceil(x)); }

// The relative error that remains of 1 / (1 - e) style denominators; a bound of a half or more says nothing any more.
double over_one_minus(double e) {
  QUIRE_CHECK_LT(e, 0.5);
  return e / (1.0 - e);
}

}  // namespace

double unit_roundoff(DType dtype) { return std::ldexp(1.0, -shape_of(dtype).fraction_bits - 1); }

double smallest_subnormal(DType dtype) { return std::ldexp(1.0, shape_of(dtype).min_exponent - shape_of(dtype).fraction_bits); }

double gamma(std::int64_t n, DType dtype) {
  const double nu = static_cast<double>(n) * unit_roundoff(dtype);
  QUIRE_CHECK_LT(nu, 1.0);
  return nu / (1.0 - nu);
}

double rounding_error(double value, double error, DType output) {
  return error + std::max(unit_roundoff(output) * (std::fabs(value) + error), smallest_subnormal(output) / 2);
}

std::vector<double> linear_bounds(const Matrix& x, const Matrix& w, std::span<const double> bias, const Precision& precision) {
  const Matrix y = reference::linear(x, w, bias);
  Matrix abs_x = x, abs_w = w;
  std::vector<double> abs_bias(bias.begin(), bias.end());
  for (auto* values : {&abs_x.values, &abs_w.values, &abs_bias})
    for (double& v : *values) v = std::fabs(v);
  std::vector<double> bounds = reference::linear(abs_x, abs_w, abs_bias).values;  // sum |x| |w| + |bias|
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const double error = gamma(x.cols + 1, precision.work) * bounds[i] + static_cast<double>(x.cols + 1) * underflow(precision.work);
    bounds[i] = rounding_error(y.values[i], error, precision.output);
  }
  return bounds;
}

std::vector<double> linear_scaled_bounds(const Quantised& x, const Quantised& w, std::int64_t group, std::span<const double> bias, const Precision& precision) {
  const Matrix y = reference::linear_scaled(x, w, group, bias);
  Quantised abs_x = x, abs_w = w;
  std::vector<double> abs_bias(bias.begin(), bias.end());
  for (auto* values : {&abs_x.stored.values, &abs_w.stored.values, &abs_bias})
    for (double& v : *values) v = std::fabs(v);
  std::vector<double> bounds = reference::linear_scaled(abs_x, abs_w, group, abs_bias).values;
  const std::int64_t groups = (x.stored.cols + group - 1) / group, longest = std::min(group, x.stored.cols);
  // An underflow in a chain is multiplied by the scales later; one of a scaled sum is not.
  double most_x = 0.0, most_w = 0.0;
  for (const double s : x.scales.values) most_x = std::max(most_x, s);
  for (const double s : w.scales.values) most_w = std::max(most_w, s);
  const double lost = underflow(precision.work) * (static_cast<double>(x.stored.cols) * most_x * most_w + static_cast<double>(groups) * (most_w + 2.0) + 1.0);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    // Products and sums of the longest chain, two scales, the groups' sum, the bias.
    const double error = gamma(longest + 2 + groups + 1, precision.work) * bounds[i] + lost;
    bounds[i] = rounding_error(y.values[i], error, precision.output);
  }
  return bounds;
}

std::vector<double> linear_coded_bounds(const Quantised& x, const Coded& w, std::span<const double> bias, const Precision& precision) {
  const Matrix y = reference::linear_coded(x, w, bias);
  const std::int64_t groups = w.scales.cols, x_group = x.stored.cols / x.scales.cols;
  std::vector<double> bounds;
  for (std::int64_t m = 0; m < y.rows; ++m)
    for (std::int64_t n = 0; n < y.cols; ++n) {
      double terms = bias.empty() ? 0.0 : std::fabs(bias[static_cast<std::size_t>(n)]), lost = 1.0;
      for (std::int64_t g = 0; g < groups; ++g) {
        double dot = 0.0, sum = 0.0;
        for (std::int64_t k = g * w.group; k < (g + 1) * w.group; ++k) {
          dot += w.codes.at(n, k) * x.stored.at(m, k);
          sum += x.stored.at(m, k);
        }
        const double x_scale = x.scales.at(m, g * w.group / x_group), scale = std::fabs(w.scales.at(n, g)), offset = std::fabs(w.offsets.at(n, g));
        terms += std::fabs(dot) * x_scale * scale + std::fabs(sum) * x_scale * offset;
        lost += scale + offset + 2.0;  // the first product of two may be subnormal, and the second
      }
      // Two products of each term, two terms for each group, the bias.
      const double error = gamma(2 + 2 * groups + 1, precision.work) * terms + lost * underflow(precision.work);
      bounds.push_back(rounding_error(y.at(m, n), error, precision.output));
    }
  return bounds;
}

std::vector<double> int8_input_bounds(const Quantised& x, const Matrix& w) {
  const std::int64_t group = x.stored.cols / x.scales.cols;
  std::vector<double> bounds;
  for (std::int64_t m = 0; m < x.stored.rows; ++m)
    for (std::int64_t n = 0; n < w.rows; ++n) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < w.cols; ++k) sum += std::fabs(w.at(n, k)) * x.scales.at(m, k / group);
      // The scale, and a quotient of up to 127, each rounded once.
      bounds.push_back(sum * (0.5 + 127.0 * gamma(2, DType::kF32)));
    }
  return bounds;
}

std::vector<double> rms_norm_bounds(const Matrix& x, std::span<const double> weight, double eps, const Precision& precision) {
  const Matrix y = reference::rms_norm(x, weight, eps);
  std::vector<double> bounds;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double sum = 0.0;
    for (const double v : x.row(r)) sum += v * v;
    const double mean = sum / static_cast<double>(x.cols) + eps;
    // Squares and their sum: gamma_H; mean, eps and its own rounding: 3 more, all of them halved by the root (plus one for the halving's
    // own second order). Root, reciprocal, two products and the weight's conversion: 5.
    const double relative = gamma((x.cols + 3) / 2 + 7, precision.work) + (mean > 0.0 ? underflow(precision.work) / mean : 0.0);
    for (std::int64_t i = 0; i < x.cols; ++i) {
      const double value = y.at(r, i);
      bounds.push_back(rounding_error(value, relative * std::fabs(value) + underflow(precision.work), precision.output));
    }
  }
  return bounds;
}

namespace {

// Of g / (1 + e^-z) * up, with z = z(g) known within `argument(g)` absolutely. |g| <= |z(g)|.
template <class Argument>
std::vector<double> gated_bounds(const Matrix& gate_up, const Matrix& y, const Precision& precision, Argument argument) {
  // e^-z, 1 +, division, product.
  const double arithmetic = gamma(ceil_of(precision.transcendental_ulps) + 3, precision.work);
  // Where e^-z overflows `work` the kernel's gate is 0 instead of |g| e^z, which is largest at the overflow itself.
  const double exponent = shape_of(precision.work).max_exponent + 1;
  const double lost_gate = exponent * std::log(2.0) * std::ldexp(1.0, -static_cast<int>(exponent)) * 1.01;
  std::vector<double> bounds;
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t i = 0; i < y.cols; ++i) {
      const double value = y.at(r, i), up = std::fabs(gate_up.at(r, y.cols + i));
      const double relative = arithmetic + (1.0 + arithmetic) * std::expm1(argument(gate_up.at(r, i)));
      const double error = relative * std::fabs(value) + lost_gate * up + underflow(precision.work) * (1.0 + up);
      bounds.push_back(rounding_error(value, error, precision.output));
    }
  }
  return bounds;
}

}  // namespace

std::vector<double> silu_mul_bounds(const Matrix& gate_up, const Precision& precision) {
  return gated_bounds(gate_up, reference::silu_mul(gate_up), precision, [](double) { return 0.0; });
}

// z = 2 sqrt(2 / pi) (g + 0.044715 g^3): two rounded constants, the square, product, sum, product; all terms of one sign. Past the range of
// e^z nothing is left to lose but the gate itself.
std::vector<double> gelu_tanh_mul_bounds(const Matrix& gate_up, const Precision& precision) {
  const double most = (shape_of(precision.work).max_exponent + 1) * std::log(2.0);
  return gated_bounds(gate_up, reference::gelu_tanh_mul(gate_up), precision, [&](double g) {
    const double z = 2.0 * std::sqrt(2.0 / std::numbers::pi) * std::fabs(g + 0.044715 * g * g * g);
    return std::min(z, most) * gamma(6, precision.work);
  });
}

double soft_cap_error(double capped, double cap, const Precision& precision) {
  // The argument is rounded up to three times, and y tanh'(y) <= tanh(y); tanh; the product.
  return std::fabs(capped) * gamma(ceil_of(precision.transcendental_ulps) + 5, precision.work) + underflow(precision.work) * (1.0 + cap);
}

std::vector<double> rope_bounds(const Matrix& x, std::span<const std::int64_t> positions, std::span<const double> frequencies, double attention_scale,
                                const Precision& precision, std::span<const double> errors) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  std::vector<double> bounds;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const std::int64_t i = c % (2 * half);
      const double angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) * frequencies[static_cast<std::size_t>(i % half)];
      const std::int64_t other = i < half ? c + half : c - half;
      const double cos = std::fabs(std::cos(angle) * attention_scale), sin = std::fabs(std::sin(angle) * attention_scale);
      const auto error_of = [&](std::int64_t column) { return errors.empty() ? 0.0 : errors[static_cast<std::size_t>(t * x.cols + column)]; };
      const double given = error_of(c) * cos + error_of(other) * sin;
      const double size = std::fabs(x.at(t, c)) * cos + std::fabs(x.at(t, other)) * sin + given;
      // cos or sin, the scale, product, sum, and one for a scale that is applied last. The value itself is at most `size`.
      const double error = given + gamma(5, precision.work) * size + 3.0 * underflow(precision.work);
      bounds.push_back(rounding_error(size, error, precision.output));
    }
  }
  return bounds;
}

namespace {

struct ScoreError {
  double score, error, size;  // the exact score, how far the kernel's may be, and the largest term in it
};

ScoreError score_error(std::span<const double> query, std::span<const double> key, std::int64_t distance, const reference::ScoreRule& rule, const Precision& precision) {
  const double u = unit_roundoff(precision.work);
  double size = 0.0;
  for (std::size_t d = 0; d < query.size(); ++d) size += std::fabs(query[d] * key[d]);
  ScoreError e{reference::score(query, key, distance, rule), 0.0, 0.0};
  // D products and sums; the scale, log2(e) and their product; the cache's scale in it.
  e.error = gamma(std::ssize(query) + 4 + precision.cache_scale_roundings, precision.work) * size * rule.scale;
  const double capped = reference::score(query, key, 0, rule), bias = rule.alibi_slope * static_cast<double>(distance);
  if (rule.soft_cap > 0.0) e.error += soft_cap_error(capped, rule.soft_cap, precision);
  // ALiBi's product and sum.
  if (rule.alibi_slope != 0.0) e.error += 2.0 * u * (std::fabs(bias) + std::fabs(capped) + std::fabs(e.score));
  e.size = std::max({std::fabs(e.score), std::fabs(capped), std::fabs(bias)});
  return e;
}

}  // namespace

AttentionBounds attend_bounds(std::span<const double> query, const Matrix& keys, const Matrix& values, const reference::ScoreRule& rule, const Precision& precision) {
  AttentionBounds bounds{.exact = reference::attend(query, keys, values, rule)};
  const reference::HeadOutput& exact = bounds.exact;
  bounds.out.assign(exact.out.size(), 0.0);
  if (!std::isfinite(exact.lse)) return bounds;  // nothing visible: zeros and -inf, exactly
  const double u = unit_roundoff(precision.work);
  const bool sink = std::isfinite(rule.sink);
  double score_error_most = 0.0, largest_score = sink ? std::fabs(rule.sink) : 0.0;
  std::vector<double> weights;
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    const ScoreError e = score_error(query, keys.row(j), keys.rows - 1 - j, rule, precision);
    score_error_most = std::max(score_error_most, e.error);
    largest_score = std::max(largest_score, e.size);
    weights.push_back(std::exp(e.score - exact.lse));
  }
  // A window begins inside a part; a sink is one more.
  const std::int64_t parts = keys.rows / precision.attention_part_tokens + 3 + (sink ? 1 : 0);
  // The exponent's argument: the score's error on both sides of the quotient, the subtraction of the maximum, and the rescalings, whose
  // arguments add up to the range of the scores at most.
  const double argument_error = 2.0 * score_error_most + 6.0 * u * largest_score;
  const double relative =
      std::expm1(argument_error) + gamma((ceil_of(precision.transcendental_ulps) + 2) * (parts + 1) + keys.rows + 4 + precision.cache_scale_roundings, precision.work);
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    const auto value = values.row(j);
    for (std::size_t d = 0; d < value.size(); ++d) bounds.out[d] += weights[static_cast<std::size_t>(j)] * std::fabs(value[d]);
  }
  for (std::size_t d = 0; d < exact.out.size(); ++d) {
    const double error = 2.0 * over_one_minus(relative) * bounds.out[d] + static_cast<double>(keys.rows + 2) * underflow(precision.work);
    bounds.out[d] = rounding_error(exact.out[d], error, precision.output);
  }
  const double log_of_sum = std::log(static_cast<double>(keys.rows + 1));  // the largest the logarithm's value can be
  bounds.lse = over_one_minus(relative) + (precision.transcendental_ulps + 2.0) * u * log_of_sum + 4.0 * u * (largest_score + std::fabs(exact.lse));
  return bounds;
}

std::vector<double> log_softmax_bounds(std::span<const double> logits, const Precision& precision) {
  const std::vector<double> exact = reference::log_softmax(logits);
  const double u = unit_roundoff(precision.work);
  const double largest = logits.empty() ? 0.0 : *std::ranges::max_element(logits);
  double weighted_range = 0.0;  // what rounding the arguments l - max does to the sum, relative to it
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (std::isfinite(exact[i])) weighted_range += std::exp(exact[i]) * std::fabs(logits[i] - largest);
  const double relative = 2.0 * u * weighted_range + gamma(std::ssize(logits) + ceil_of(precision.transcendental_ulps) + 2, precision.work);
  std::vector<double> bounds;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i])) {
      bounds.push_back(0.0);  // the masks decide
      continue;
    }
    const double log_of_sum = std::fabs(logits[i] - largest - exact[i]);
    const double error =
        over_one_minus(relative) + (precision.transcendental_ulps + 1.0) * u * log_of_sum + 2.0 * u * (std::fabs(logits[i] - largest) + log_of_sum);
    bounds.push_back(rounding_error(exact[i], error, precision.output));
  }
  return bounds;
}

}  // namespace quire::reference
