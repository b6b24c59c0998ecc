#include "model/forward.h"

#include <cmath>

namespace quire::model {
namespace {

ops::ActTensor rows_of(const TensorView& t, std::int64_t n) { return ops::ActTensor{t.rows(n)}; }

struct LayerTensors {
  ops::ActTensor residual, hidden, qkv, q, attended, projected, gate_up, activated;
};

LayerTensors tensors_of(const ForwardModel& m, std::int64_t n) {
  return LayerTensors{rows_of(m.act.residual, n), rows_of(m.act.hidden, n),    rows_of(m.act.qkv, n),     rows_of(m.act.q, n),
                      rows_of(m.act.attended, n), rows_of(m.act.projected, n), rows_of(m.act.gate_up, n), rows_of(m.act.activated, n)};
}

// Up to the write of this layer's keys and values.
void before_attention(device::Stream& stream, const ForwardModel& m, const StepView& step, const LayerTensors& t, std::int32_t layer) {
  ops::linear(stream, t.hidden, m.weights.layers()[static_cast<std::size_t>(layer)].qkv, t.qkv);
  ops::qk_norm_rope_kv_write(stream,
                             ops::RopeKvWrite{.qkv = t.qkv,
                                              .positions = step.positions,
                                              .slots = step.slots,
                                              .cos_sin = m.weights.cos_sin(),
                                              .num_heads = m.spec.num_heads,
                                              .q = t.q,
                                              .kv_scales = m.kv.scales()},
                             m.kv.layout(), m.kv.data(), layer);
}

// From attention's output to the next layer's normed input.
void after_attention(device::Stream& stream, const ForwardModel& m, const LayerTensors& t, std::size_t layer) {
  const auto& layers = m.weights.layers();
  const LayerWeights& w = layers[layer];
  const auto eps = static_cast<float>(m.spec.rms_norm_eps);
  ops::linear(stream, t.attended, w.o, t.projected);
  ops::add_rms_norm(stream, t.projected, t.residual, w.post_norm, eps, t.hidden);
  ops::linear(stream, t.hidden, w.gate_up, t.gate_up);
  ops::silu_mul(stream, t.gate_up, t.activated);
  ops::linear(stream, t.activated, w.down, t.projected);
  const float* next_norm = layer + 1 < layers.size() ? layers[layer + 1].input_norm : m.weights.final_norm();
  ops::add_rms_norm(stream, t.projected, t.residual, next_norm, eps, t.hidden);
}

}  // namespace

void forward_piece(device::Stream& stream, const ForwardModel& m, const StepView& step, std::int32_t piece) {
  const LayerTensors t = tensors_of(m, step.num_tokens);
  if (piece == 0) {
    ops::embed(stream, step.token_ids, m.weights.embedding(), t.residual);
    ops::rms_norm(stream, t.residual, m.weights.layers().front().input_norm, static_cast<float>(m.spec.rms_norm_eps), t.hidden);
  } else {
    after_attention(stream, m, t, static_cast<std::size_t>(piece - 1));
  }
  if (piece < m.spec.num_layers) before_attention(stream, m, step, t, piece);
}

void forward_attention(device::Stream& stream, const ForwardModel& m, const StepView& step, std::int32_t layer) {
  const LayerMask mask = m.spec.mask_of(layer);
  attention::run_attention(stream, m.backend,
                           attention::LayerAttention{.q = rows_of(m.act.q, step.num_tokens),
                                                     .out = rows_of(m.act.attended, step.num_tokens),
                                                     .query_start = step.query_start,
                                                     .seq_lens = step.seq_lens,
                                                     .block_table = step.block_table,
                                                     .block_table_stride = step.block_table_stride,
                                                     .num_heads = m.spec.num_heads,
                                                     .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(m.spec.head_dim))),
                                                     .layout = &m.kv.layout(),
                                                     .pool = m.kv.data(),
                                                     .kv_scales = m.kv.scales(),
                                                     .layer = layer,
                                                     .masks = {.window = mask.window, .chunk = mask.chunk, .soft_cap = static_cast<float>(mask.soft_cap)}},
                           step.work);
}

void forward(device::Stream& stream, const ForwardModel& m, const StepView& step) {
  for (std::int32_t layer = 0; layer < m.spec.num_layers; ++layer) {
    forward_piece(stream, m, step, layer);
    forward_attention(stream, m, step, layer);
  }
  forward_piece(stream, m, step, m.spec.num_layers);
}

void logits(device::Stream& stream, const ForwardModel& m, const std::int32_t* token_rows, std::int64_t count) {
  const ops::ActTensor gathered = rows_of(m.act.gathered, count);
  ops::gather_rows(stream, ops::ActTensor{m.act.hidden}, token_rows, gathered);
  ops::linear(stream, gathered, m.weights.lm_head(), rows_of(m.act.logits, count));
}

}  // namespace quire::model
