// Rotary frequencies in double precision. Notation: d = head_dim, pair j in [0, d/2) turns by theta^(-2j/d) radians per position.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "model/spec.h"

namespace quire::model {
namespace {

std::vector<double> base_frequencies(double theta, std::int32_t head_dim) {
  std::vector<double> out(static_cast<std::size_t>(head_dim) / 2);
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = std::pow(theta, -2.0 * static_cast<double>(j) / head_dim);
  return out;
}

// Long waves are stretched by `factor`, short ones kept, those between blended by how many turns fit the original length.
void apply_llama3(const RopeSpec& rope, double original, std::vector<double>& inv_freq) {
  for (double& frequency : inv_freq) {
    const double turns = original * frequency / (2.0 * std::numbers::pi);
    if (turns > rope.high_freq_factor) continue;
    if (turns < rope.low_freq_factor) {
      frequency /= rope.factor;
      continue;
    }
    const double keep = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    frequency *= (1.0 - keep) / rope.factor + keep;
  }
}

// The (fractional) pair index whose wave makes `turns` turns over the original length.
double pair_of_turns(double turns, double original, double theta, std::int32_t head_dim) {
  return head_dim * std::log(original / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
}

void apply_yarn(const RopeSpec& rope, double original, std::int32_t head_dim, std::vector<double>& inv_freq) {
  double low = pair_of_turns(rope.beta_fast, original, rope.theta, head_dim), high = pair_of_turns(rope.beta_slow, original, rope.theta, head_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  if (low == high) high += 0.001;  // the published implementation's way around a ramp of no width
  for (std::size_t j = 0; j < inv_freq.size(); ++j) {
    const double stretch = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);  // 0: keep, 1: divide by factor
    inv_freq[j] *= stretch / rope.factor + (1.0 - stretch);
  }
}

double yarn_magnitude(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double yarn_attention_scale(const RopeSpec& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0.0 && rope.mscale_all_dim != 0.0)
    return yarn_magnitude(rope.factor, rope.mscale) / yarn_magnitude(rope.factor, rope.mscale_all_dim);
  return yarn_magnitude(rope.factor, 1.0);
}

// NTK-aware: the base grows so that the longest wave covers the served length; up to the trained length nothing changes.
double dynamic_theta(const RopeSpec& rope, double original, double served, std::int32_t head_dim) {
  const double length = std::max(served, original);
  return rope.theta * std::pow(rope.factor * length / original - (rope.factor - 1.0), head_dim / (head_dim - 2.0));
}

}  // namespace

RopeTable rope_table(const RopeSpec& rope, std::int32_t head_dim, std::int64_t max_position_embeddings, std::int64_t max_model_len) {
  QUIRE_CHECK(head_dim > 0 && head_dim % 2 == 0) << "head_dim " << head_dim;
  const auto original =
      static_cast<double>(rope.original_max_position_embeddings > 0 ? rope.original_max_position_embeddings : max_position_embeddings);
  RopeTable table;
  if (rope.kind == RopeKind::kDynamic) {
    QUIRE_CHECK_GT(head_dim, 2);
    table.inv_freq = base_frequencies(dynamic_theta(rope, original, static_cast<double>(max_model_len), head_dim), head_dim);
    return table;
  }
  table.inv_freq = base_frequencies(rope.theta, head_dim);
  switch (rope.kind) {
    case RopeKind::kDefault:
      QUIRE_CHECK(rope.divisors.empty() || rope.divisors.size() == table.inv_freq.size());
      for (std::size_t j = 0; j < rope.divisors.size(); ++j) table.inv_freq[j] /= rope.divisors[j];
      break;
    case RopeKind::kDynamic: break;
    case RopeKind::kLinear:
      for (double& frequency : table.inv_freq) frequency /= rope.factor;
      break;
    case RopeKind::kLlama3: apply_llama3(rope, original, table.inv_freq); break;
    case RopeKind::kYarn:
      apply_yarn(rope, original, head_dim, table.inv_freq);
      table.attention_scale = yarn_attention_scale(rope);
      break;
  }
  return table;
}

}  // namespace quire::model
