#include "model/forward.h"

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

const LayerWeights& layer_weights(const ForwardModel& m, std::int32_t layer) { return m.weights.layers()[static_cast<std::size_t>(layer)]; }

void observe(const ForwardModel& m, Site site, std::int32_t layer) {
  if (m.observer != nullptr) (*m.observer)(site, layer);
}

void gate(device::Stream& stream, Activation activation, const ops::ActTensor& gate_up, const ops::ActTensor& y, const ops::ActTensor& quantised) {
  switch (activation) {
    case Activation::kSilu: return ops::silu_mul(stream, gate_up, y, quantised);
    case Activation::kGeluTanh: return ops::gelu_tanh_mul(stream, gate_up, y, quantised);
  }
}

// Up to the write of this layer's keys and values.
void before_attention(device::Stream& stream, const ForwardModel& m, const StepView& step, const LayerTensors& t, std::int32_t layer) {
  const LayerWeights& w = layer_weights(m, layer);
  const ops::Weight& qkv = w.qkv;
  observe(m, Site::kQkvInput, layer);
  ops::linear(stream, m.act.input_of(qkv, t.hidden), qkv, t.qkv);
  observe(m, Site::kQkvOutput, layer);
  ops::qk_norm_rope_kv_write(stream,
                             ops::RopeKvWrite{.qkv = t.qkv,
                                              .positions = step.positions,
                                              .slots = step.slots,
                                              .cos_sin = w.cos_sin,
                                              .q_norm = w.q_norm,
                                              .k_norm = w.k_norm,
                                              .norm_eps = static_cast<float>(m.spec.rms_norm_eps),
                                              .num_heads = m.spec.num_heads,
                                              .q = t.q,
                                              .kv_scales = m.kv.scales()},
                             m.kv.layout(), m.kv.data(), layer);
}

// From attention's output to the next layer's normed input.
void after_attention(device::Stream& stream, const ForwardModel& m, const LayerTensors& t, std::int32_t layer) {
  const LayerWeights& w = layer_weights(m, layer);
  const auto eps = static_cast<float>(m.spec.rms_norm_eps);
  const ops::ActTensor o_input = m.act.input_of(w.o, t.attended), gate_up_input = m.act.input_of(w.gate_up, t.hidden), down_input = m.act.input_of(w.down, t.activated);
  observe(m, Site::kOInput, layer);
  if (o_input.quant.quantised()) ops::quantise(stream, t.attended, o_input);
  ops::linear(stream, o_input, w.o, t.projected);
  ops::add_rms_norm(stream, t.projected, {.residual = t.residual, .weight = w.feed_forward_norm, .eps = eps, .branch = w.attended_norm}, t.hidden, gate_up_input);
  observe(m, Site::kGateUpInput, layer);
  ops::linear(stream, gate_up_input, w.gate_up, t.gate_up);
  gate(stream, m.spec.activation, t.gate_up, t.activated, down_input);
  observe(m, Site::kDownInput, layer);
  ops::linear(stream, down_input, w.down, t.projected);
  if (layer + 1 < m.spec.num_layers) {
    const LayerWeights& next = layer_weights(m, layer + 1);
    ops::add_rms_norm(stream, t.projected, {.residual = t.residual, .weight = next.input_norm, .eps = eps, .branch = w.fed_norm}, t.hidden, m.act.input_of(next.qkv, t.hidden));
  } else {
    ops::add_rms_norm(stream, t.projected, {.residual = t.residual, .weight = m.weights.final_norm(), .eps = eps, .branch = w.fed_norm}, t.hidden);
  }
}

// Room for the input of `w` in `needs`.
void count_input(const ops::Weight& w, QuantisedNeeds& needs) {
  const ops::InputQuant& q = w.input;
  if (!q.quantised()) return;
  QUIRE_CHECK(needs.format == ops::ActFormat::kF32 || needs.format == q.format) << "one encoding of quantised inputs for all layers";
  needs.format = q.format;
  needs.values = std::max(needs.values, w.k * (q.scaling == ops::ActScaling::kStatic ? w.num_parts : 1));
  needs.scales = std::max(needs.scales, q.row_floats(w.k));
}

}  // namespace

QuantisedNeeds quantised_needs(const Weights& weights) {
  QuantisedNeeds needs;
  for (const LayerWeights& l : weights.layers())
    for (const ops::Weight* w : {&l.qkv, &l.o, &l.gate_up, &l.down}) count_input(*w, needs);
  count_input(weights.lm_head(), needs);
  needs.head = weights.lm_head().input.quantised();
  return needs;
}

ops::ActTensor Activations::input_of(const ops::Weight& w, const ops::ActTensor& x) const {
  const ops::InputQuant& quant = w.input;
  if (!quant.quantised()) return x;
  const std::int64_t elements = x.rows() * w.k;
  QUIRE_CHECK_LE(elements * quant.copies(), quantised.num_elements()) << "no room for the quantised input";
  return ops::ActTensor{TensorView::dense(quantised.data, quantised.dtype, {x.rows(), w.k}), quant, quant.row_scales(w.k) > 0 ? scales.as<float>() : nullptr, quant.copies() > 1 ? elements : 0};
}

void forward_piece(device::Stream& stream, const ForwardModel& m, const StepView& step, std::int32_t piece) {
  const LayerTensors t = tensors_of(m, step.num_tokens);
  if (piece == 0) {
    ops::embed(stream, step.token_ids, m.weights.embedding(), t.residual);
    const LayerWeights& first = layer_weights(m, 0);
    ops::rms_norm(stream, t.residual, {.weight = first.input_norm, .eps = static_cast<float>(m.spec.rms_norm_eps)}, t.hidden, m.act.input_of(first.qkv, t.hidden));
  } else {
    after_attention(stream, m, t, piece - 1);
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
                                                     .scale = static_cast<float>(m.spec.attention_scale()),
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
  const ops::ActTensor input = m.act.input_of(m.weights.lm_head(), gathered);
  if (input.quant.quantised()) ops::quantise(stream, gathered, input);
  ops::linear(stream, input, m.weights.lm_head(), rows_of(m.act.logits, count));
  if (m.spec.final_soft_cap > 0.0) ops::soft_cap(stream, rows_of(m.act.logits, count), static_cast<float>(m.spec.final_soft_cap));
}

}  // namespace quire::model
