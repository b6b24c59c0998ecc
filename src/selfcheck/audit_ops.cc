#include <algorithm>
#include <cmath>

#include "ops/coded.h"
#include "reference/bounds.h"
#include "reference/coded.h"
#include "reference/linear.h"
#include "reference/norm.h"
#include "reference/quantise.h"
#include "reference/rounding.h"
#include "reference/silu_mul.h"
#include "selfcheck/audit.h"

namespace quire::selfcheck {
namespace {

using reference::Matrix;

std::vector<float> read_floats(const StepFacts& f, const float* device, std::int64_t count) {
  std::vector<float> host(static_cast<std::size_t>(count));
  f.stream.copy_to_host(host.data(), device, host.size() * sizeof(float));
  return host;
}

// Outputs around panel borders: first, last and middle panel, their first and last lanes.
std::vector<std::int64_t> sampled_outputs(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, ops::kPanel - 1, ops::kPanel, n / 2, n - 1})
    if (at < n && std::find(out.begin(), out.end(), at) == out.end()) out.push_back(at);
  return out;
}

// Rows of a weight as the device holds them, [outputs.size(), k].
Matrix weight_rows(const StepFacts& f, const ops::Weight& w, const std::vector<std::int64_t>& outputs) {
  const DType dtype = ops::storage_dtype(w.format);
  const std::size_t bytes = dtype_bytes(dtype);
  std::vector<std::byte> panel(static_cast<std::size_t>(w.k * ops::kPanel) * bytes);
  Matrix out(static_cast<std::int64_t>(outputs.size()), w.k);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    f.stream.copy_to_host(panel.data(), static_cast<const std::byte*>(w.packed) + static_cast<std::size_t>(outputs[i] / ops::kPanel) * panel.size(), panel.size());
    for (std::int64_t k = 0; k < w.k; ++k) {
      const std::size_t first = static_cast<std::size_t>(k * ops::kPanel + outputs[i] % ops::kPanel) * bytes;
      std::uint32_t bits = 0;
      for (std::size_t b = bytes; b-- > 0;) bits = bits << 8 | std::to_integer<std::uint32_t>(panel[first + b]);
      out.at(static_cast<std::int64_t>(i), k) = reference::decode(dtype, bits);
    }
  }
  return out;
}

struct LinearCase {
  const char* name;
  const ops::Weight& weight;
  const Matrix &x, &y;          // [rows, k], [rows, n] as the device had them
  const QuantisedInput& input;  // x as the weight reads it, if that is quantised
  std::int32_t layer;
  double soft_cap = 0.0;        // y went through it afterwards
};

// What an operation gives, [rows, its outputs or the sampled ones], and how far from it each number may be.
struct Expected {
  Matrix y;
  std::vector<double> bounds;
};

// Scales of FP8 weights, [outputs.size(), groups].
Matrix weight_scales(const StepFacts& f, const ops::Weight& w, const std::vector<std::int64_t>& outputs) {
  const std::int64_t groups = ops::Weight::scale_rows(w.k, w.scale_group), width = ops::Weight::scales_elements(w.n, w.k, w.scale_group) / groups;
  Matrix out(std::ssize(outputs), groups);
  for (std::int64_t i = 0; i < out.rows; ++i)
    for (std::int64_t g = 0; g < groups; ++g) out.at(i, g) = static_cast<double>(read_floats(f, w.scales + g * width + outputs[static_cast<std::size_t>(i)], 1)[0]);
  return out;
}

// The copy of the input that an output reads. Float32 inputs have the scale 1.
reference::Quantised input_of(const LinearCase& c, std::int64_t output) {
  if (c.input.copies.empty()) return {c.x, Matrix(c.x.rows, 1, std::vector<double>(static_cast<std::size_t>(c.x.rows), 1.0))};
  int part = 0;
  while (output >= c.weight.end_row(part)) ++part;
  return c.input.copies[static_cast<std::size_t>(c.weight.input.copy_of(part))];
}

Expected expected_fp8(const StepFacts& f, const LinearCase& c, const std::vector<std::int64_t>& outputs, const std::vector<double>& bias) {
  const Matrix stored = weight_rows(f, c.weight, outputs), scales = weight_scales(f, c.weight, outputs);
  const std::int64_t group = c.weight.scale_group < c.weight.k || c.weight.input.row_scales(c.weight.k) > 1 ? ops::kScaleGroup : c.weight.k;
  Expected out{Matrix(c.x.rows, std::ssize(outputs)), std::vector<double>(static_cast<std::size_t>(c.x.rows) * outputs.size())};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto row = stored.row(at), row_scales = scales.row(at);
    const reference::Quantised x = input_of(c, outputs[i]), w{Matrix(1, stored.cols, {row.begin(), row.end()}), Matrix(1, scales.cols, {row_scales.begin(), row_scales.end()})};
    const std::vector<double> one_bias = bias.empty() ? bias : std::vector<double>{bias[i]};
    const Matrix y = reference::linear_scaled(x, w, group, one_bias);
    const std::vector<double> bounds = reference::linear_scaled_bounds(x, w, group, one_bias, {});
    for (std::int64_t r = 0; r < c.x.rows; ++r) {
      out.y.at(r, at) = y.at(r, 0);
      out.bounds[static_cast<std::size_t>(r) * outputs.size() + i] = bounds[static_cast<std::size_t>(r)];
    }
  }
  return out;
}

// A coded weight's output as the device holds it.
reference::Coded coded_row(const StepFacts& f, const ops::Weight& w, std::int64_t output) {
  int p = 0;
  while (output >= w.end_row(p)) ++p;
  const ops::CodedPart& part = w.coded[static_cast<std::size_t>(p)];
  const ops::CodedLayout& layout = ops::coded_layout(part.format);
  const std::int64_t row = output - w.first_rows[static_cast<std::size_t>(p)], groups = w.k / layout.group;
  std::vector<std::byte> panel(static_cast<std::size_t>(layout.panel_bytes(w.k)));
  f.stream.copy_to_host(panel.data(), static_cast<const std::byte*>(part.packed) + static_cast<std::size_t>(row / ops::kPanel) * panel.size(), panel.size());
  reference::Coded out{Matrix(1, w.k), Matrix(1, groups), Matrix(1, groups), layout.group};
  for (std::int64_t g = 0; g < groups; ++g) {
    const ops::CodedGroup group = ops::coded_group(layout, w.k, panel.data(), row % ops::kPanel, g);
    out.scales.at(0, g) = static_cast<double>(group.scale);
    out.offsets.at(0, g) = static_cast<double>(group.offset);
    for (std::int64_t i = 0; i < layout.group; ++i) out.codes.at(0, g * layout.group + i) = group.codes[static_cast<std::size_t>(i)];
  }
  return out;
}

Expected expected_coded(const StepFacts& f, const LinearCase& c, const std::vector<std::int64_t>& outputs, const std::vector<double>& bias) {
  Expected out{Matrix(c.x.rows, std::ssize(outputs)), std::vector<double>(static_cast<std::size_t>(c.x.rows) * outputs.size())};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const reference::Coded w = coded_row(f, c.weight, outputs[i]);
    const std::vector<double> one_bias = bias.empty() ? bias : std::vector<double>{bias[i]};
    const Matrix y = reference::linear_coded(c.input.copies[0], w, one_bias);
    const std::vector<double> bounds = reference::linear_coded_bounds(c.input.copies[0], w, one_bias, {});
    for (std::int64_t r = 0; r < c.x.rows; ++r) {
      out.y.at(r, static_cast<std::int64_t>(i)) = y.at(r, 0);
      out.bounds[static_cast<std::size_t>(r) * outputs.size() + i] = bounds[static_cast<std::size_t>(r)];
    }
  }
  return out;
}

Expected expected_outputs(const StepFacts& f, const LinearCase& c, const std::vector<std::int64_t>& outputs) {
  std::vector<double> bias;
  if (c.weight.bias != nullptr)
    for (const std::int64_t o : outputs) bias.push_back(static_cast<double>(read_floats(f, c.weight.bias + o, 1)[0]));
  if (ops::is_coded(c.weight.format)) return expected_coded(f, c, outputs, bias);
  if (is_fp8(c.weight.format)) return expected_fp8(f, c, outputs, bias);
  const Matrix w = weight_rows(f, c.weight, outputs);
  return {reference::linear(c.x, w, bias), reference::linear_bounds(c.x, w, bias, {})};
}

void cap_outputs(Expected& want, double cap) {
  for (std::size_t i = 0; i < want.y.values.size(); ++i) {
    double& y = want.y.values[i];
    y = cap * std::tanh(y / cap);
    want.bounds[i] += reference::soft_cap_error(y, cap, {});
  }
}

// `class_of(row)` and `place_of(row)` name a row.
template <class ClassOf, class PlaceOf>
void audit_linear(const StepFacts& f, const LinearCase& c, Tally& tally, ClassOf class_of, PlaceOf place_of) {
  const std::vector<std::int64_t> outputs = sampled_outputs(c.weight.n);
  Expected want = expected_outputs(f, c, outputs);
  if (c.soft_cap > 0.0) cap_outputs(want, c.soft_cap);
  for (std::int64_t r = 0; r < c.x.rows; ++r) {
    Tally::Line line = tally.line(c.name, class_of(r), c.layer);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      line.add(c.y.at(r, outputs[i]), want.y.at(r, static_cast<std::int64_t>(i)), want.bounds[static_cast<std::size_t>(r) * outputs.size() + i],
               [&] { return place_of(r) + ", output " + std::to_string(outputs[i]); });
  }
}

// What is stored of a quantised input, and its scales: known to the bit from the float32 beside it.
template <class ClassOf, class PlaceOf>
void audit_input(const LinearCase& c, const char* name, Tally& tally, ClassOf class_of, PlaceOf place_of) {
  const ops::InputQuant& q = c.weight.input;
  const DType dtype = ops::storage_dtype(q.format);
  for (std::size_t copy = 0; copy < c.input.copies.size(); ++copy) {
    const reference::Quantised want = q.format == ops::ActFormat::kInt8         ? reference::quantise_int8(c.input.x, ops::kInt8Group)
                                      : q.scaling == ops::ActScaling::kStatic   ? reference::quantise_with(c.input.x, dtype, static_cast<double>(q.scales[copy]))
                                      : q.scaling == ops::ActScaling::kPerToken ? reference::quantise_by_row(c.input.x, dtype)
                                                                                : reference::quantise_by_group(c.input.x, dtype, ops::kScaleGroup);
    const reference::Quantised& got = c.input.copies[copy];
    for (std::int64_t r = 0; r < got.stored.rows; ++r) {
      Tally::Line line = tally.line(name, class_of(r), c.layer);
      const auto add = [&](const Matrix& g, const Matrix& w, const char* what) {
        for (std::int64_t i = 0; i < w.cols; ++i) line.add(g.at(r, i), w.at(r, i), 0.0, [&] { return place_of(r) + ", copy " + std::to_string(copy) + ", " + what + " " + std::to_string(i); });
      };
      add(got.scales, want.scales, "scale");
      add(got.stored, want.stored, "column");
    }
  }
}

void compare_rows(const StepFacts& f, const char* check, const Matrix& got, const Expected& want, Tally& tally) {
  for (std::int64_t t = 0; t < want.y.rows; ++t) {
    Tally::Line line = tally.line(check, class_of(f.batch, t), f.cells.num_layers() - 1);
    for (std::int64_t c = 0; c < want.y.cols; ++c)
      line.add(got.at(t, c), want.y.at(t, c), want.bounds[static_cast<std::size_t>(t * want.y.cols + c)], [&] { return place_of(f.batch, t) + ", column " + std::to_string(c); });
  }
}

}  // namespace

void audit_layer_ops(const StepFacts& f, Tally& tally) {
  const StepSnapshot& s = f.step;
  if (f.config.spec.activation == model::Activation::kGeluTanh)
    compare_rows(f, "gelu_tanh_mul", s.activated, {.y = reference::gelu_tanh_mul(s.gate_up), .bounds = reference::gelu_tanh_mul_bounds(s.gate_up, {})}, tally);
  else
    compare_rows(f, "silu_mul", s.activated, {.y = reference::silu_mul(s.gate_up), .bounds = reference::silu_mul_bounds(s.gate_up, {})}, tally);
  const auto token_class = [&](std::int64_t t) { return class_of(f.batch, t); };
  const auto token_place = [&](std::int64_t t) { return place_of(f.batch, t); };
  const ops::Weight& down = f.weights.layers().back().down;
  if (!down.input.quantised() || !s.down_input.copies.empty()) {
    const LinearCase c{"linear (down)", down, s.activated, s.projected, s.down_input, f.cells.num_layers() - 1};
    audit_input(c, "quantised input (down)", tally, token_class, token_place);
    audit_linear(f, c, tally, token_class, token_place);
  }
  const std::vector<float> weight32 = read_floats(f, f.weights.final_norm(), f.config.spec.hidden_size);
  const std::vector<double> weight(weight32.begin(), weight32.end());
  const auto eps = static_cast<double>(static_cast<float>(f.config.spec.rms_norm_eps));
  compare_rows(f, "rms_norm", s.hidden, {.y = reference::rms_norm(s.residual, weight, eps), .bounds = reference::rms_norm_bounds(s.residual, weight, eps, {})}, tally);
}

void audit_quantised_qkv(const StepFacts& f, const LayerSnapshot& s, Tally& tally) {
  if (s.input.copies.empty()) return;
  const auto token_class = [&](std::int64_t t) { return class_of(f.batch, t); };
  const auto token_place = [&](std::int64_t t) { return place_of(f.batch, t); };
  const LinearCase c{"linear (qkv)", f.weights.layers()[static_cast<std::size_t>(s.layer)].qkv, s.input.x, s.qkv, s.input, s.layer};
  audit_input(c, "quantised input (qkv)", tally, token_class, token_place);
  audit_linear(f, c, tally, token_class, token_place);
}

void audit_head(const StepFacts& f, Tally& tally) {
  const auto row_class = [&](std::int64_t r) { return row_class_name(f.batch.rows[static_cast<std::size_t>(r)].row_class); };
  const auto row_place = [](std::int64_t r) { return "row " + std::to_string(r); };
  // Of a quantised input fewer rows were kept.
  const Matrix& x = f.step.head_input.copies.empty() ? f.step.gathered : f.step.head_input.x;
  const LinearCase c{"linear (lm_head)", f.weights.lm_head(), x, f.step.logits, f.step.head_input, kNoLayer, static_cast<double>(static_cast<float>(f.config.spec.final_soft_cap))};
  audit_input(c, "quantised input (lm_head)", tally, row_class, row_place);
  audit_linear(f, c, tally, row_class, row_place);
  for (std::int64_t r = 0; r < f.step.logits.rows; ++r) {
    const auto row = f.step.logits.row(r);
    const auto want = std::max_element(row.begin(), row.end()) - row.begin();  // the lowest id of a tie
    tally.line("greedy token", row_class(r)).add(f.step.tokens[static_cast<std::size_t>(r)], static_cast<double>(want), 0.0, [&] { return row_place(r); });
  }
}

}  // namespace quire::selfcheck
