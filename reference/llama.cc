#include "reference/llama.h"

#include <cmath>
#include <numeric>

#include "reference/attention.h"
#include "reference/embed.h"
#include "reference/linear.h"
#include "reference/norm.h"
#include "reference/rounding.h"
#include "reference/silu_mul.h"

namespace quire::reference {
namespace {

Matrix load_shaped(const LlamaReference::LoadWeight& load, const std::string& name, std::int64_t rows, std::int64_t cols) {
  Matrix m = load(name);
  QUIRE_CHECK(m.rows == rows && m.cols == cols) << name << ": " << m.rows << " x " << m.cols << ", expected " << rows << " x " << cols;
  return m;
}

void round_all(Matrix& m, const std::optional<DType>& dtype) {
  if (!dtype) return;
  for (double& v : m.values) v = round_to(*dtype, v);
}

// Columns [first, first + count) of the first `rows` rows.
Matrix window(const Matrix& m, std::int64_t rows, std::int64_t first, std::int64_t count) {
  Matrix out(rows, count);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) out.at(r, c) = m.at(r, first + c);
  return out;
}

}  // namespace

LlamaReference::LlamaReference(const model::ModelSpec& spec, const LoadWeight& load, const LlamaOptions& options)
    : spec_(spec), kv_dtype_(options.kv_dtype) {
  rotation_ = rotation_of({spec.rope, spec.head_dim, spec.max_position_embeddings,
                           options.max_model_len > 0 ? options.max_model_len : spec.max_position_embeddings});
  const auto vector = [&](const std::string& name, std::int64_t n) { return load_shaped(load, name, 1, n).values; };
  const auto projection = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs, bool has_bias) {
    Projection p{load_shaped(load, name + ".weight", outputs, inputs), {}};
    if (has_bias) p.bias = vector(name + ".bias", outputs);
    return p;
  };
  const std::int64_t hidden = spec.hidden_size, inner = spec.intermediate_size;
  const std::int64_t q_width = std::int64_t{spec.num_heads} * spec.head_dim, kv_width = std::int64_t{spec.num_kv_heads} * spec.head_dim;
  embedding_ = load_shaped(load, "model.embed_tokens.weight", spec.vocab_size, hidden);
  for (std::int32_t i = 0; i < spec.num_layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i);
    Layer& layer = layers_.emplace_back();
    layer.input_norm = vector(at + ".input_layernorm.weight", hidden);
    layer.post_attention_norm = vector(at + ".post_attention_layernorm.weight", hidden);
    layer.q = projection(at + ".self_attn.q_proj", q_width, hidden, spec.attention_bias);
    layer.k = projection(at + ".self_attn.k_proj", kv_width, hidden, spec.attention_bias);
    layer.v = projection(at + ".self_attn.v_proj", kv_width, hidden, spec.attention_bias);
    layer.o = projection(at + ".self_attn.o_proj", hidden, q_width, spec.attention_bias);
    layer.gate = projection(at + ".mlp.gate_proj", inner, hidden, spec.mlp_bias);
    layer.up = projection(at + ".mlp.up_proj", inner, hidden, spec.mlp_bias);
    layer.down = projection(at + ".mlp.down_proj", hidden, inner, spec.mlp_bias);
  }
  final_norm_ = vector("model.norm.weight", hidden);
  if (!spec.tie_word_embeddings) head_ = load_shaped(load, "lm_head.weight", spec.vocab_size, hidden);
}

Matrix LlamaReference::attention_block(const Layer& layer, const Matrix& x) const {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(x.rows));
  std::iota(positions.begin(), positions.end(), 0);
  const Matrix q = rope(linear(x, layer.q.weight, layer.q.bias), positions, rotation_);
  Matrix k = rope(linear(x, layer.k.weight, layer.k.bias), positions, rotation_);
  Matrix v = linear(x, layer.v.weight, layer.v.bias);
  round_all(k, kv_dtype_);
  round_all(v, kv_dtype_);
  const std::int64_t d = spec_.head_dim, group = spec_.num_heads / spec_.num_kv_heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  Matrix mixed(x.rows, q.cols);
  for (std::int64_t head = 0; head < spec_.num_heads; ++head) {
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const auto query = q.row(t).subspan(static_cast<std::size_t>(head * d), static_cast<std::size_t>(d));
      const std::int64_t first = head / group * d;
      const HeadOutput row = attend(query, window(k, t + 1, first, d), window(v, t + 1, first, d), scale);
      for (std::int64_t i = 0; i < d; ++i) mixed.at(t, head * d + i) = row.out[static_cast<std::size_t>(i)];
    }
  }
  return linear(mixed, layer.o.weight, layer.o.bias);
}

Matrix LlamaReference::feed_forward(const Layer& layer, const Matrix& x) const {
  const Matrix gate = linear(x, layer.gate.weight, layer.gate.bias), up = linear(x, layer.up.weight, layer.up.bias);
  Matrix both(x.rows, gate.cols + up.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < gate.cols; ++c) both.at(r, c) = gate.at(r, c), both.at(r, gate.cols + c) = up.at(r, c);
  }
  return linear(silu_mul(both), layer.down.weight, layer.down.bias);
}

Matrix LlamaReference::logits(std::span<const TokenId> tokens) const {
  Matrix residual = embed(embedding_, tokens);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Matrix normed = rms_norm(residual, layers_[i].input_norm, spec_.rms_norm_eps);
    NormedResidual middle = add_rms_norm(attention_block(layers_[i], normed), residual, layers_[i].post_attention_norm, spec_.rms_norm_eps);
    residual = std::move(middle.residual);
    const Matrix fed = feed_forward(layers_[i], middle.normed);
    for (std::size_t e = 0; e < residual.values.size(); ++e) residual.values[e] += fed.values[e];
  }
  return linear(rms_norm(residual, final_norm_, spec_.rms_norm_eps), head_ ? *head_ : embedding_);
}

}  // namespace quire::reference
