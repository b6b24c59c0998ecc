#include "selfcheck/snapshot.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/forward.h"
#include "reference/rounding.h"
#include "runner/step_inputs.h"

namespace quire::selfcheck {
namespace {

using reference::Matrix;

constexpr std::int64_t kMarkedRows = 64;

void fill_attended(const runner::StepTrace& trace, float value) {
  const TensorView& out = trace.activations->attended;
  const std::vector<float> rows(static_cast<std::size_t>(std::min(kMarkedRows, out.dim(0)) * out.dim(1)), value);
  trace.stream->copy_to_device(out.data, rows.data(), rows.size() * sizeof(float));
}

// The first `rows` rows of an activation.
Matrix read(device::Stream& stream, const TensorView& activation, std::int64_t rows) {
  std::vector<float> host(static_cast<std::size_t>(rows * activation.dim(1)));
  stream.copy_to_host(host.data(), activation.data, host.size() * sizeof(float));
  return Matrix(rows, activation.dim(1), std::vector<double>(host.begin(), host.end()));
}

// What `w` read of x, of which `rows` ran; x and its quantised form as they are on the device now.
QuantisedInput read_input(device::Stream& stream, const model::Activations& act, const ops::Weight& w, const TensorView& x, std::int64_t rows) {
  const ops::InputQuant& q = w.input;
  if (!q.quantised()) return {};
  const std::int64_t taken = std::min(rows, kMostDenseTokens), groups = std::max<std::int64_t>(1, q.row_scales(w.k)), row_floats = std::max<std::int64_t>(1, q.row_floats(w.k));
  const ops::ActTensor input = act.input_of(w, ops::ActTensor{x.rows(rows)});
  std::vector<float> scales(static_cast<std::size_t>(taken * row_floats));
  if (input.scales != nullptr) stream.copy_to_host(scales.data(), input.scales, scales.size() * sizeof(float));
  QuantisedInput out{read(stream, x, taken), {}};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(taken * w.k));
  for (int copy = 0; copy < q.copies(); ++copy) {
    stream.copy_to_host(bytes.data(), input.values.as<std::uint8_t>() + copy * input.copy_stride, bytes.size());
    reference::Quantised numbers{Matrix(taken, w.k), Matrix(taken, groups)};
    for (std::int64_t r = 0; r < taken; ++r)
      for (std::int64_t g = 0; g < groups; ++g) numbers.scales.at(r, g) = static_cast<double>(scales[static_cast<std::size_t>(r * row_floats + g)]);
    const auto number = [&](std::uint8_t b) { return q.format == ops::ActFormat::kInt8 ? static_cast<double>(static_cast<std::int8_t>(b)) : reference::decode(input.values.dtype, b); };
    std::ranges::transform(bytes, numbers.stored.values.begin(), number);
    if (input.scales == nullptr) std::ranges::fill(numbers.scales.values, static_cast<double>(q.scales[static_cast<std::size_t>(copy)]));
    out.copies.push_back(std::move(numbers));
  }
  return out;
}

// Bytes of a block that differ from what the self-check put there, outside the new tokens' cells.
void count_foreign(const Cells& cells, std::int32_t layer, const OwnBlock& b, std::span<const std::byte> after, StepSnapshot& out) {
  const std::vector<std::byte> before = cells.poisoned(layer, b.block, b.begin);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::int32_t token = cells.token_of_byte(i);
    if (after[i] == before[i] || (token >= b.begin && token < b.end)) continue;
    if (out.foreign_bytes++ == 0) out.first_foreign = "layer " + std::to_string(layer) + ", block " + std::to_string(b.block) + ", token " + std::to_string(token);
  }
}

void take_cells(const EndedStep& step, StepSnapshot& out) {
  const Cells& cells = step.cells;
  const std::size_t bytes = bytes_of(cells.block_layout());
  std::vector<std::byte> block(bytes);
  std::vector<std::int32_t> others;
  for (const std::int32_t b : cells.blocks())
    if (std::none_of(out.own.begin(), out.own.end(), [b](const OwnBlock& o) { return o.block == b; })) others.push_back(b);
  for (std::int32_t layer = 0; layer < cells.num_layers(); ++layer) {
    std::vector<std::byte>& own = out.cells.emplace_back(out.own.size() * bytes);
    for (std::size_t i = 0; i < out.own.size(); ++i) {
      const std::span<std::byte> place = std::span(own).subspan(i * bytes, bytes);
      cells.download(*step.trace.stream, layer, out.own[i].block, place);
      count_foreign(cells, layer, out.own[i], place, out);
    }
    for (const std::int32_t b : others) {
      cells.download(*step.trace.stream, layer, b, block);
      if (!std::ranges::equal(block, cells.image(layer, b))) count_foreign(cells, layer, OwnBlock{b, cells.block_layout().block_size, 0}, block, out);
    }
  }
}

std::int64_t padded_tokens(const runner::StepTrace& trace) { return std::ssize(trace.inputs->positions); }

LayerSnapshot take_layer(const runner::StepTrace& trace, std::int64_t num_tokens, std::int32_t layer) {
  const model::Activations& act = *trace.activations;
  return {layer, read(*trace.stream, act.qkv, num_tokens), read(*trace.stream, act.q, num_tokens), read(*trace.stream, act.attended, padded_tokens(trace)), {}};
}

// The first `n` tokens of an input that was read for padded ones too.
QuantisedInput first_tokens(QuantisedInput in, std::int64_t n) {
  const auto cut = [n](Matrix& m) { m = Matrix(std::min(n, m.rows), m.cols, std::vector<double>(m.values.begin(), m.values.begin() + std::min(n, m.rows) * m.cols)); };
  cut(in.x);
  for (reference::Quantised& copy : in.copies) {
    cut(copy.stored);
    cut(copy.scales);
  }
  return in;
}

}  // namespace

LayerSnapshot take_watched_layer(const runner::StepTrace& trace, const model::Weights& weights, std::int64_t num_tokens, std::int32_t layer) {
  LayerSnapshot out = take_layer(trace, num_tokens, layer);
  const model::Activations& act = *trace.activations;
  out.input = first_tokens(read_input(*trace.stream, act, weights.layers()[static_cast<std::size_t>(layer)].qkv, act.hidden, padded_tokens(trace)), num_tokens);
  return out;
}

StepSnapshot take_step(const EndedStep& step, std::vector<LayerSnapshot> layers) {
  const std::int64_t num_tokens = step.batch.num_tokens, rows = std::ssize(step.batch.rows), dense = std::min(num_tokens, kMostDenseTokens);
  const runner::StepInputs& in = *step.trace.inputs;
  const model::Activations& act = *step.trace.activations;
  const std::int32_t last = step.cells.num_layers() - 1;
  StepSnapshot out;
  out.positions.assign(in.positions.begin(), in.positions.begin() + num_tokens);
  out.slots.assign(in.slots.begin(), in.slots.begin() + num_tokens);
  out.padded_tokens = std::ssize(in.positions);
  out.layers = std::move(layers);
  if (out.layers.empty()) out.layers.push_back(take_layer(step.trace, num_tokens, last));
  out.own = own_blocks_of(step.batch, step.cells.block_layout().block_size);
  take_cells(step, out);
  const auto dense_rows = [&](const TensorView& activation) { return read(*step.trace.stream, activation, dense); };
  out.residual = dense_rows(act.residual);
  out.hidden = dense_rows(act.hidden);
  out.gate_up = dense_rows(act.gate_up);
  out.activated = dense_rows(act.activated);
  out.projected = dense_rows(act.projected);
  out.gathered = read(*step.trace.stream, act.gathered, rows);  // every row samples once, in order
  out.logits = read(*step.trace.stream, act.logits, rows);
  const ops::Weight& head = step.weights.lm_head();
  out.head_input = read_input(*step.trace.stream, act, head, act.gathered, rows);
  if (!head.input.quantised())
    out.down_input = first_tokens(read_input(*step.trace.stream, act, step.weights.layers().back().down, act.activated, out.padded_tokens), num_tokens);
  for (const RowResult& row : step.result.rows) out.tokens.push_back(row.token.has_value() ? static_cast<double>(*row.token) : -1.0);
  return out;
}

void mark_attended(const runner::StepTrace& trace) { fill_attended(trace, std::numeric_limits<float>::quiet_NaN()); }
void unmark_attended(const runner::StepTrace& trace) { fill_attended(trace, 0.0f); }

}  // namespace quire::selfcheck
