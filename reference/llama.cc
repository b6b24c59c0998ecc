#include "reference/llama.h"

#include <algorithm>
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

Matrix rows_between(const Matrix& m, std::int64_t begin, std::int64_t end) {
  return Matrix(end - begin, m.cols, std::vector<double>(m.values.begin() + begin * m.cols, m.values.begin() + end * m.cols));
}

}  // namespace

LlamaReference::LlamaReference(const model::ModelSpec& spec, const LoadWeight& load, const LlamaOptions& options)
    : spec_(spec), activation_dtype_(options.activation_dtype), kv_dtype_(options.kv_dtype), fp8_(options.fp8), int8_group_(options.int8_group), embedding_scale_(round_to(options.weight_dtype, spec.embedding_scale)) {
  const auto rotation = [&](const model::RopeSpec& rope) {
    Rotation r = rotation_of({rope, spec.head_dim, spec.max_position_embeddings, options.max_model_len > 0 ? options.max_model_len : spec.max_position_embeddings});
    r.angles = options.angles;
    return r;
  };
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
    Layer& layer = layers_.emplace_back();
    const model::LayerMask mask = spec.masks.empty() ? model::LayerMask{} : spec.masks.at(static_cast<std::size_t>(i));
    QUIRE_CHECK_EQ(mask.chunk, 0) << "no published family of these has chunks";
    layer.window = mask.window;
    layer.score_cap = mask.soft_cap;
    layer.rotation = rotation(mask.window > 0 && spec.local_rope ? *spec.local_rope : spec.rope);
    load_norms(layer, i, load);
    layer.q = projection(i, Kind::kQ, q_width, hidden, spec.qkv_bias);
    layer.k = projection(i, Kind::kK, kv_width, hidden, spec.qkv_bias);
    layer.v = projection(i, Kind::kV, kv_width, hidden, spec.qkv_bias);
    layer.o = projection(i, Kind::kO, hidden, q_width, spec.o_bias);
    layer.gate = projection(i, Kind::kGate, inner, hidden, spec.mlp_bias);
    layer.up = projection(i, Kind::kUp, inner, hidden, spec.mlp_bias);
    layer.down = projection(i, Kind::kDown, hidden, inner, spec.mlp_bias);
  }
  final_norm_ = vector("model.norm.weight", hidden);
  for (double& w : final_norm_) w += spec.norm_weight_offset;
  if (!spec.tie_word_embeddings) head_ = load_shaped(load, "lm_head.weight", spec.vocab_size, hidden);
}

// Checkpoints of models with branch norms call the norm after attention post_attention_layernorm; the others the one before the feed-forward block.
void LlamaReference::load_norms(Layer& layer, std::int32_t index, const LoadWeight& load) const {
  const auto norm = [&](const char* name, std::int64_t width) {
    std::vector<double> w = load_shaped(load, "model.layers." + std::to_string(index) + "." + name + ".weight", 1, width).values;
    for (double& one : w) one += spec_.norm_weight_offset;
    return w;
  };
  layer.input_norm = norm("input_layernorm", spec_.hidden_size);
  if (spec_.branch_norms) {
    layer.attended_norm = norm("post_attention_layernorm", spec_.hidden_size);
    layer.feed_forward_norm = norm("pre_feedforward_layernorm", spec_.hidden_size);
    layer.fed_norm = norm("post_feedforward_layernorm", spec_.hidden_size);
  } else {
    layer.feed_forward_norm = norm("post_attention_layernorm", spec_.hidden_size);
  }
  if (!spec_.qk_norm) return;
  layer.query_norm = norm("self_attn.q_norm", spec_.head_dim);
  layer.key_norm = norm("self_attn.k_norm", spec_.head_dim);
}

Matrix LlamaReference::held_in_int8(const Matrix& x) const {
  if (int8_group_ == 0) return x;
  const Quantised q = quantise_int8(x, int8_group_);
  Matrix held = q.stored;
  for (std::int64_t r = 0; r < held.rows; ++r)
    for (std::int64_t c = 0; c < held.cols; ++c) held.at(r, c) *= q.scales.at(r, c / int8_group_);
  return held;
}

// The layer's input as it is stored, times its scale; then the product.
Matrix LlamaReference::project(const Projection& p, const Matrix& x) const {
  if (p.input == model::InputScaling::kNone) return rounded(linear(held_in_int8(x), p.weight, p.bias), activation_dtype_);
  const Quantised q = p.input == model::InputScaling::kStatic     ? quantise_with(x, fp8_, p.input_scale)
                      : p.input == model::InputScaling::kPerToken ? quantise_by_row(x, fp8_)
                                                                  : quantise_by_group(x, fp8_, model::kScaleBlock);
  Matrix held = q.stored;
  for (std::int64_t r = 0; r < held.rows; ++r)
    for (std::int64_t c = 0; c < held.cols; ++c) held.at(r, c) *= q.scales.at(r, q.scales.cols == 1 ? 0 : c / model::kScaleBlock);
  return rounded(linear(held, p.weight, p.bias), activation_dtype_);
}

Matrix LlamaReference::norm_heads(Matrix x, const std::vector<double>& weight) const {
  if (weight.empty()) return x;
  const std::int64_t rows = x.rows, cols = x.cols, d = spec_.head_dim;
  Matrix heads = rms_norm(Matrix(rows * (cols / d), d, std::move(x.values)), weight, spec_.rms_norm_eps);
  return rounded(Matrix(rows, cols, std::move(heads.values)), activation_dtype_);
}

Matrix LlamaReference::branch(Matrix out, const std::vector<double>& weight) const {
  return weight.empty() ? out : rounded(rms_norm(out, weight, spec_.rms_norm_eps), activation_dtype_);
}

Matrix LlamaReference::attention_block(const Layer& layer, const Matrix& x) const {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(x.rows));
  std::iota(positions.begin(), positions.end(), 0);
  const auto turned = [&](const Projection& p, const std::vector<double>& norm) { return rounded(rope(norm_heads(project(p, x), norm), positions, layer.rotation), activation_dtype_); };
  const Matrix q = turned(layer.q, layer.query_norm), k = rounded(turned(layer.k, layer.key_norm), kv_dtype_);
  const Matrix v = rounded(project(layer.v, x), kv_dtype_);
  const std::int64_t d = spec_.head_dim, group = spec_.num_heads / spec_.num_kv_heads;
  const ScoreRule rule{.scale = std::pow(spec_.query_pre_attn_scalar.value_or(static_cast<double>(d)), -0.5), .soft_cap = layer.score_cap};
  Matrix mixed(x.rows, q.cols);
  for (std::int64_t head = 0; head < spec_.num_heads; ++head) {
    const Matrix keys = columns(k, head / group * d, d), values = columns(v, head / group * d, d);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const std::int64_t begin = layer.window > 0 ? std::max<std::int64_t>(0, t + 1 - layer.window) : 0;
      const auto query = q.row(t).subspan(static_cast<std::size_t>(head * d), static_cast<std::size_t>(d));
      const HeadOutput row = attend(query, rows_between(keys, begin, t + 1), rows_between(values, begin, t + 1), rule);
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
  return project(layer.down, rounded(spec_.activation == model::Activation::kGeluTanh ? gelu_tanh_mul(both) : silu_mul(both), activation_dtype_));
}

Matrix LlamaReference::logits(std::span<const TokenId> tokens) const {
  const double eps = spec_.rms_norm_eps;
  Matrix residual = embed(embedding_, tokens);
  for (double& v : residual.values) v *= embedding_scale_;
  residual = rounded(std::move(residual), activation_dtype_);
  for (const Layer& layer : layers_) {
    const Matrix normed = rounded(rms_norm(residual, layer.input_norm, eps), activation_dtype_);
    const Matrix attended = branch(attention_block(layer, normed), layer.attended_norm);
    // The norm sees the sum before it is rounded for the next addition, as a fused add_rms_norm may or may not do.
    NormedResidual middle = add_rms_norm(attended, residual, layer.feed_forward_norm, eps);
    const Matrix fed = branch(feed_forward(layer, rounded(std::move(middle.normed), activation_dtype_)), layer.fed_norm);
    residual = rounded(std::move(middle.residual), activation_dtype_);
    for (std::size_t e = 0; e < residual.values.size(); ++e) residual.values[e] += fed.values[e];
    residual = rounded(std::move(residual), activation_dtype_);
  }
  const Matrix last = rounded(rms_norm(residual, final_norm_, eps), activation_dtype_);
  Matrix out = rounded(linear(held_in_int8(last), head_ ? *head_ : embedding_), activation_dtype_);
  if (spec_.final_soft_cap > 0.0)
    for (double& v : out.values) v = spec_.final_soft_cap * std::tanh(v / spec_.final_soft_cap);
  return rounded(std::move(out), activation_dtype_);
}

}  // namespace quire::reference
