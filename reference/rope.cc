#include "reference/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/rounding.h"

namespace quire::reference {
namespace {

using model::RopeKind;
using model::RopeSpec;

constexpr double kTurn = 2.0 * std::numbers::pi;

double plain_frequency(double theta, std::int64_t i, std::int32_t head_dim) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
}

double dynamic_theta(const RotationQuestion& q) {
  const auto trained = static_cast<double>(q.max_position_embeddings);
  const double served = std::max(static_cast<double>(q.max_model_len), trained);
  const double d = q.head_dim;
  const double stretch = q.rope.factor * served / trained - (q.rope.factor - 1.0);
  return q.rope.theta * std::pow(stretch, d / (d - 2.0));
}

double llama3_frequency(const RopeSpec& rope, double trained, double f) {
  const double wavelength = kTurn / f;
  if (wavelength < trained / rope.high_freq_factor) return f;
  if (wavelength > trained / rope.low_freq_factor) return f / rope.factor;
  const double s = (trained / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - s) * f / rope.factor + s * f;
}

// The (fractional) pair index whose frequency turns `turns` times over the trained length.
double yarn_dimension(const RotationQuestion& q, double trained, double turns) {
  return q.head_dim * std::log(trained / (turns * kTurn)) / (2.0 * std::log(q.rope.theta));
}

double yarn_frequency(const RotationQuestion& q, double trained, std::int64_t i, double f) {
  double low = yarn_dimension(q, trained, q.rope.beta_fast);
  double high = yarn_dimension(q, trained, q.rope.beta_slow);
  if (q.rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(q.head_dim - 1));
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);  // 0: keep, 1: interpolate
  return f * (1.0 - ramp) + f / q.rope.factor * ramp;
}

double yarn_magnitude(double factor, double weight) { return factor > 1.0 ? 0.1 * weight * std::log(factor) + 1.0 : 1.0; }

double yarn_attention_scale(const RopeSpec& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0.0 && rope.mscale_all_dim != 0.0)
    return yarn_magnitude(rope.factor, rope.mscale) / yarn_magnitude(rope.factor, rope.mscale_all_dim);
  return yarn_magnitude(rope.factor, 1.0);
}

double angle_of(std::int64_t position, double frequency, AnglePrecision precision) {
  if (precision == AnglePrecision::kExact) return static_cast<double>(position) * frequency;
  return round_to(DType::kF32, round_to(DType::kF32, static_cast<double>(position)) * round_to(DType::kF32, frequency));
}

}  // namespace

Rotation rotation_of(const RotationQuestion& q) {
  QUIRE_CHECK(q.head_dim >= 2 && q.head_dim % 2 == 0) << q.head_dim;
  const RopeSpec& rope = q.rope;
  const auto trained =
      static_cast<double>(rope.original_max_position_embeddings > 0 ? rope.original_max_position_embeddings : q.max_position_embeddings);
  const double theta = rope.kind == RopeKind::kDynamic ? dynamic_theta(q) : rope.theta;
  Rotation out;
  for (std::int64_t i = 0; i < q.head_dim / 2; ++i) {
    const double f = plain_frequency(theta, i, q.head_dim);
    switch (rope.kind) {
      case RopeKind::kDefault: out.frequencies.push_back(rope.divisors.empty() ? f : f / rope.divisors.at(static_cast<std::size_t>(i))); break;
      case RopeKind::kDynamic: out.frequencies.push_back(f); break;
      case RopeKind::kLinear: out.frequencies.push_back(f / rope.factor); break;
      case RopeKind::kLlama3: out.frequencies.push_back(llama3_frequency(rope, trained, f)); break;
      case RopeKind::kYarn: out.frequencies.push_back(yarn_frequency(q, trained, i, f)); break;
    }
  }
  if (rope.kind == RopeKind::kYarn) out.attention_scale = yarn_attention_scale(rope);
  return out;
}

Matrix rope(const Matrix& x, std::span<const std::int64_t> positions, const Rotation& rotation) {
  const auto half = static_cast<std::int64_t>(rotation.frequencies.size());
  QUIRE_CHECK_EQ(static_cast<std::int64_t>(positions.size()), x.rows);
  QUIRE_CHECK(half > 0 && x.cols % (2 * half) == 0) << x.cols << " columns, heads of " << 2 * half;
  Matrix y(x.rows, x.cols);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const std::int64_t i = c % (2 * half);
      const double angle =
          angle_of(positions[static_cast<std::size_t>(t)], rotation.frequencies[static_cast<std::size_t>(i % half)], rotation.angles);
      const double partner = i < half ? -x.at(t, c + half) : x.at(t, c - half);
      y.at(t, c) = (x.at(t, c) * std::cos(angle) + partner * std::sin(angle)) * rotation.attention_scale;
    }
  }
  return y;
}

}  // namespace quire::reference
