#include "model/forward.h"

#include <cmath>

namespace quire::model {
namespace {

ops::ActTensor rows_of(const TensorView& t, std::int64_t n) { return ops::ActTensor{t.rows(n)}; }

struct LayerTensors {
  ops::ActTensor residual, hidden, qkv, q, attended, projected, gate_up, activated;
};

void attention_block(device::Stream& stream, const ForwardModel& m, const StepView& step, const LayerTensors& t, std::int32_t layer) {
  const LayerWeights& w = m.weights.layers()[static_cast<std::size_t>(layer)];
  ops::linear(stream, t.hidden, w.qkv, t.qkv);
  ops::qk_norm_rope_kv_write(stream,
                             ops::RopeKvWrite{.qkv = t.qkv,
                                              .positions = step.positions,
                                              .slots = step.slots,
                                              .cos_sin = m.weights.cos_sin(),
                                              .num_heads = m.spec.num_heads,
                                              .q = t.q},
                             m.kv.layout(), m.kv.data(), layer);
  attention::run_attention(stream, m.backend,
                           attention::LayerAttention{.q = t.q,
                                                     .out = t.attended,
                                                     .query_start = step.query_start,
                                                     .seq_lens = step.seq_lens,
                                                     .block_table = step.block_table,
                                                     .block_table_stride = step.block_table_stride,
                                                     .num_heads = m.spec.num_heads,
                                                     .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(m.spec.head_dim)))},
                           step.work, m.kv.layout(), m.kv.data(), layer);
  ops::linear(stream, t.attended, w.o, t.projected);
}

void mlp_block(device::Stream& stream, const LayerWeights& w, const LayerTensors& t) {
  ops::linear(stream, t.hidden, w.gate_up, t.gate_up);
  ops::silu_mul(stream, t.gate_up, t.activated);
  ops::linear(stream, t.activated, w.down, t.projected);
}

}  // namespace

void forward(device::Stream& stream, const ForwardModel& m, const StepView& step) {
  const std::int64_t n = step.num_tokens;
  const LayerTensors t{rows_of(m.act.residual, n),  rows_of(m.act.hidden, n),    rows_of(m.act.qkv, n),     rows_of(m.act.q, n),
                       rows_of(m.act.attended, n), rows_of(m.act.projected, n), rows_of(m.act.gate_up, n), rows_of(m.act.activated, n)};
  const auto eps = static_cast<float>(m.spec.rms_norm_eps);
  const auto& layers = m.weights.layers();
  ops::embed(stream, step.token_ids, m.weights.embedding(), t.residual);
  ops::rms_norm(stream, t.residual, layers.front().input_norm, eps, t.hidden);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    attention_block(stream, m, step, t, static_cast<std::int32_t>(i));
    ops::add_rms_norm(stream, t.projected, t.residual, layers[i].post_norm, eps, t.hidden);
    mlp_block(stream, layers[i], t);
    const float* next_norm = i + 1 < layers.size() ? layers[i + 1].input_norm : m.weights.final_norm();
    ops::add_rms_norm(stream, t.projected, t.residual, next_norm, eps, t.hidden);
  }
}

void logits(device::Stream& stream, const ForwardModel& m, const std::int32_t* token_rows, std::int64_t count) {
  const ops::ActTensor gathered = rows_of(m.act.gathered, count);
  ops::gather_rows(stream, ops::ActTensor{m.act.hidden}, token_rows, gathered);
  ops::linear(stream, gathered, m.weights.lm_head(), rows_of(m.act.logits, count));
}

}  // namespace quire::model
