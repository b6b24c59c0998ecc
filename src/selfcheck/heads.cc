#include "selfcheck/heads.h"

#include <utility>

#include "reference/bounds.h"
#include "reference/norm.h"

namespace quire::selfcheck {

using reference::Matrix;

HeadTurn::HeadTurn(const runner::RunnerConfig& config, const model::Weights& weights, device::Stream& stream, std::int32_t layer)
    : eps_(static_cast<double>(static_cast<float>(config.spec.rms_norm_eps))) {
  const model::ModelSpec& spec = config.spec;
  rotation_ = reference::rotation_of({spec.rope_of(layer), spec.head_dim, spec.max_position_embeddings, config.limits.max_model_len});
  rotation_.angles = reference::AnglePrecision::kFloat32;
  const model::LayerWeights& w = weights.layers()[static_cast<std::size_t>(layer)];
  const auto read = [&](const float* from) {
    std::vector<float> host(from == nullptr ? 0 : static_cast<std::size_t>(spec.head_dim));
    if (from != nullptr) stream.copy_to_host(host.data(), from, host.size() * sizeof(float));
    stream.synchronize();
    return std::vector<double>(host.begin(), host.end());
  };
  q_norm_ = read(w.q_norm);
  k_norm_ = read(w.k_norm);
}

HeadTurn::Normed HeadTurn::normed(const Matrix& x, Of of) const {
  const std::vector<double>& weight = of == Of::kQueries ? q_norm_ : k_norm_;
  if (weight.empty()) return {x, {}};
  const std::int64_t d = std::ssize(weight);
  const Matrix heads(x.rows * (x.cols / d), d, x.values);
  return {Matrix(x.rows, x.cols, reference::rms_norm(heads, weight, eps_).values), reference::rms_norm_bounds(heads, weight, eps_, {})};
}

HeadTurn::Turned HeadTurn::turn(const Matrix& x, std::span<const std::int64_t> positions, Of of, DType output) const {
  const Normed in = normed(x, of);
  return {reference::rope(in.values, positions, rotation_), reference::rope_bounds(in.values, positions, rotation_.frequencies, rotation_.attention_scale, {.output = output}, in.errors)};
}

Matrix HeadTurn::values(const Matrix& x, std::span<const std::int64_t> positions, Of of) const { return reference::rope(normed(x, of).values, positions, rotation_); }

}  // namespace quire::selfcheck
