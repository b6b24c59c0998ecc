#include "reference/llama.h"

#include <cmath>
#include <numeric>

#include "reference/attention.h"
#include "reference/embed.h"
#include "reference/linear.h"
#include "reference/norm.h"
#include "reference/quantise.h"
#include "reference/rounding.h"
#include "reference/silu_mul.h"

namespace quire::reference {
namespace {

Matrix load_shaped(const LlamaReference::LoadWeight& load, const std::string& name, std::int64_t rows, std::int64_t cols) {
  Matrix m = load(name);
  QUIRE_CHECK(m.rows == rows && m.cols == cols) << name << ": " << m.rows << " x " << m.cols << ", expected " << rows << " x " << cols;
  return m;
}

Matrix rounded(Matrix m, const std::optional<DType>& dtype) {
  if (!dtype) return m;
  for (double& v : m.values) v = round_to(*dtype, v);
  return m;
}

// Columns [first, first + count).
Matrix columns(const Matrix& m, std::int64_t first, std::int64_t count) {
  Matrix out(m.rows, count);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) out.at(r, c) = m.at(r, first + c);
  return out;
}

Matrix first_rows(const Matrix& m, std::int64_t n) { return Matrix(n, m.cols, std::vector<double>(m.values.begin(), m.values.begin() + n * m.cols)); }

}  // namespace

LlamaReference::LlamaReference(const model::ModelSpec& spec, const LoadWeight& load, const LlamaOptions& options)
    : spec_(spec), activation_dtype_(options.activation_dtype), kv_dtype_(options.kv_dtype), fp8_(options.fp8) {
  rotation_ = rotation_of(
      {spec.rope, spec.head_dim, spec.max_position_embeddings, options.max_model_len > 0 ? options.max_model_len : spec.max_position_embeddings});
  rotation_.angles = options.angles;
  const auto vector = [&](const std::string& name, std::int64_t n) { return load_shaped(load, name, 1, n).values; };
  const auto projection = [&](std::int32_t i, model::LinearKind kind, std::int64_t outputs, std::int64_t inputs, bool has_bias) {
    const std::string name = "model.layers." + std::to_string(i) + "." + std::string(model::kLinearNames[static_cast<std::size_t>(kind)]);
    Projection p{load_shaped(load, name + ".weight", outputs, inputs), {}, spec.quant.scheme_of(i, kind).input};
    if (has_bias) p.bias = vector(name + ".bias", outputs);
    if (p.input == model::InputScaling::kStatic) p.input_scale = vector(name + ".input_scale", 1).front();
    return p;
  };
  using Kind = model::LinearKind;
  const std::int64_t hidden = spec.hidden_size, inner = spec.intermediate_size;
  const std::int64_t q_width = std::int64_t{spec.num_heads} * spec.head_dim, kv_width = std::int64_t{spec.num_kv_heads} * spec.head_dim;
  embedding_ = load_shaped(load, "model.embed_tokens.weight", spec.vocab_size, hidden);
  for (std::int32_t i = 0; i < spec.num_layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i);
    Layer& layer = layers_.emplace_back();
    layer.input_norm = vector(at + ".input_layernorm.weight", hidden);
    layer.post_attention_norm = vector(at + ".post_attention_layernorm.weight", hidden);
    layer.q = projection(i, Kind::kQ, q_width, hidden, spec.attention_bias);
    layer.k = projection(i, Kind::kK, kv_width, hidden, spec.attention_bias);
    layer.v = projection(i, Kind::kV, kv_width, hidden, spec.attention_bias);
    layer.o = projection(i, Kind::kO, hidden, q_width, spec.attention_bias);
    layer.gate = projection(i, Kind::kGate, inner, hidden, spec.mlp_bias);
    layer.up = projection(i, Kind::kUp, inner, hidden, spec.mlp_bias);
    layer.down = projection(i, Kind::kDown, hidden, inner, spec.mlp_bias);
  }
  final_norm_ = vector("model.norm.weight", hidden);
  if (!spec.tie_word_embeddings) head_ = load_shaped(load, "lm_head.weight", spec.vocab_size, hidden);
}

// The layer's input as it is stored, times its scale; then the product.
Matrix LlamaReference::project(const Projection& p, const Matrix& x) const {
  if (p.input == model::InputScaling::kNone) return rounded(linear(x, p.weight, p.bias), activation_dtype_);
  const Quantised q = p.input == model::InputScaling::kStatic     ? quantise_with(x, fp8_, p.input_scale)
                      : p.input == model::InputScaling::kPerToken ? quantise_by_row(x, fp8_)
                                                                  : quantise_by_group(x, fp8_, model::kScaleBlock);
  Matrix held = q.stored;
  for (std::int64_t r = 0; r < held.rows; ++r)
    for (std::int64_t c = 0; c < held.cols; ++c) held.at(r, c) *= q.scales.at(r, q.scales.cols == 1 ? 0 : c / model::kScaleBlock);
  return rounded(linear(held, p.weight, p.bias), activation_dtype_);
}

Matrix LlamaReference::attention_block(const Layer& layer, const Matrix& x) const {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(x.rows));
  std::iota(positions.begin(), positions.end(), 0);
  const Matrix q = rounded(rope(project(layer.q, x), positions, rotation_), activation_dtype_);
  const Matrix k = rounded(rounded(rope(project(layer.k, x), positions, rotation_), activation_dtype_), kv_dtype_);
  const Matrix v = rounded(project(layer.v, x), kv_dtype_);
  const std::int64_t d = spec_.head_dim, group = spec_.num_heads / spec_.num_kv_heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  Matrix mixed(x.rows, q.cols);
  for (std::int64_t head = 0; head < spec_.num_heads; ++head) {
    const Matrix keys = columns(k, head / group * d, d), values = columns(v, head / group * d, d);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const auto query = q.row(t).subspan(static_cast<std::size_t>(head * d), static_cast<std::size_t>(d));
      const HeadOutput row = attend(query, first_rows(keys, t + 1), first_rows(values, t + 1), scale);
      for (std::int64_t i = 0; i < d; ++i) mixed.at(t, head * d + i) = row.out[static_cast<std::size_t>(i)];
    }
  }
  return project(layer.o, rounded(std::move(mixed), activation_dtype_));
}

Matrix LlamaReference::feed_forward(const Layer& layer, const Matrix& x) const {
  const Matrix gate = project(layer.gate, x), up = project(layer.up, x);
  Matrix both(x.rows, gate.cols + up.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < gate.cols; ++c) both.at(r, c) = gate.at(r, c), both.at(r, gate.cols + c) = up.at(r, c);
  }
  return project(layer.down, rounded(silu_mul(both), activation_dtype_));
}

Matrix LlamaReference::logits(std::span<const TokenId> tokens) const {
  const double eps = spec_.rms_norm_eps;
  Matrix residual = embed(embedding_, tokens);
  for (const Layer& layer : layers_) {
    const Matrix normed = rounded(rms_norm(residual, layer.input_norm, eps), activation_dtype_);
    const Matrix attended = attention_block(layer, normed);
    // The norm sees the sum before it is rounded for the next addition, as a fused add_rms_norm may or may not do.
    NormedResidual middle = add_rms_norm(attended, residual, layer.post_attention_norm, eps);
    const Matrix fed = feed_forward(layer, rounded(std::move(middle.normed), activation_dtype_));
    residual = rounded(std::move(middle.residual), activation_dtype_);
    for (std::size_t e = 0; e < residual.values.size(); ++e) residual.values[e] += fed.values[e];
    residual = rounded(std::move(residual), activation_dtype_);
  }
  const Matrix last = rounded(rms_norm(residual, final_norm_, eps), activation_dtype_);
  return rounded(linear(last, head_ ? *head_ : embedding_), activation_dtype_);
}

}  // namespace quire::reference
