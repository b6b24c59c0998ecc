#include <algorithm>
#include <cmath>

#include "reference/bounds.h"
#include "reference/linear.h"
#include "reference/norm.h"
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
  const Matrix &x, &y;  // [rows, k], [rows, n] as the device had them
};

// `class_of(row)` and `place_of(row)` name a row.
template <class ClassOf, class PlaceOf>
void audit_linear(const StepFacts& f, const LinearCase& c, Tally& tally, ClassOf class_of, PlaceOf place_of) {
  const std::vector<std::int64_t> outputs = sampled_outputs(c.weight.n);
  std::vector<double> bias;
  if (c.weight.bias != nullptr)
    for (const std::int64_t o : outputs) bias.push_back(static_cast<double>(read_floats(f, c.weight.bias + o, 1)[0]));
  const Matrix w = weight_rows(f, c.weight, outputs), want = reference::linear(c.x, w, bias);
  const std::vector<double> bounds = reference::linear_bounds(c.x, w, bias, {});
  for (std::int64_t r = 0; r < c.x.rows; ++r) {
    Tally::Line line = tally.line(c.name, class_of(r));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      line.add(c.y.at(r, outputs[i]), want.at(r, static_cast<std::int64_t>(i)), bounds[static_cast<std::size_t>(r) * outputs.size() + i],
               [&] { return place_of(r) + ", output " + std::to_string(outputs[i]); });
  }
}

void compare_rows(const StepFacts& f, const char* check, const Matrix& got, const Matrix& want, const std::vector<double>& bounds, Tally& tally) {
  for (std::int64_t t = 0; t < want.rows; ++t) {
    Tally::Line line = tally.line(check, class_of(f.batch, t), f.cells.num_layers() - 1);
    for (std::int64_t c = 0; c < want.cols; ++c)
      line.add(got.at(t, c), want.at(t, c), bounds[static_cast<std::size_t>(t * want.cols + c)], [&] { return place_of(f.batch, t) + ", column " + std::to_string(c); });
  }
}

}  // namespace

void audit_layer_ops(const StepFacts& f, Tally& tally) {
  const StepSnapshot& s = f.step;
  compare_rows(f, "silu_mul", s.activated, reference::silu_mul(s.gate_up), reference::silu_mul_bounds(s.gate_up, {}), tally);
  audit_linear(
      f, {"linear (down)", f.weights.layers().back().down, s.activated, s.projected}, tally, [&](std::int64_t t) { return class_of(f.batch, t); }, [&](std::int64_t t) { return place_of(f.batch, t); });
  const std::vector<float> weight32 = read_floats(f, f.weights.final_norm(), f.config.spec.hidden_size);
  const std::vector<double> weight(weight32.begin(), weight32.end());
  const auto eps = static_cast<double>(static_cast<float>(f.config.spec.rms_norm_eps));
  compare_rows(f, "rms_norm", s.hidden, reference::rms_norm(s.residual, weight, eps), reference::rms_norm_bounds(s.residual, weight, eps, {}), tally);
}

void audit_head(const StepFacts& f, Tally& tally) {
  const auto row_class = [&](std::int64_t r) { return row_class_name(f.batch.rows[static_cast<std::size_t>(r)].row_class); };
  const auto row_place = [](std::int64_t r) { return "row " + std::to_string(r); };
  audit_linear(f, {"linear (lm_head)", f.weights.lm_head(), f.step.gathered, f.step.logits}, tally, row_class, row_place);
  for (std::int64_t r = 0; r < f.step.logits.rows; ++r) {
    const auto row = f.step.logits.row(r);
    const auto want = std::max_element(row.begin(), row.end()) - row.begin();  // the lowest id of a tie
    tally.line("greedy token", row_class(r)).add(f.step.tokens[static_cast<std::size_t>(r)], static_cast<double>(want), 0.0, [&] { return row_place(r); });
  }
}

}  // namespace quire::selfcheck
