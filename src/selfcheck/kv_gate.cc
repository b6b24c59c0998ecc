#include "selfcheck/kv_gate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "model/forward.h"
#include "reference/attention.h"
#include "reference/rounding.h"
#include "runner/text_step.h"
#include "selfcheck/heads.h"

namespace quire::selfcheck {
namespace {

using reference::Matrix;

constexpr std::int64_t kMostTokens = 256;
constexpr std::int64_t kEveryRow = 8;  // attention is compared at each eighth token

// Sums of squares of a difference and of what it is relative to.
struct Drift {
  double difference = 0.0, size = 0.0;
  void add(double got, double want) {
    difference += (got - want) * (got - want);
    size += want * want;
  }
  [[nodiscard]] double relative() const { return difference == 0.0 ? 0.0 : std::sqrt(difference / size); }
};

struct PartCount {
  std::int64_t numbers = 0, saturated = 0, flushed = 0;
  double largest = 0.0;
  Drift drift;
  [[nodiscard]] KvLoss loss() const {
    const auto n = static_cast<double>(std::max<std::int64_t>(numbers, 1));
    return {static_cast<double>(saturated) / n, static_cast<double>(flushed) / n, drift.relative(), largest};
  }
};

// One layer as it grows chunk by chunk.
struct LayerState {
  Matrix keys, values;  // [tokens, kv heads * head_dim] as a 16-bit cache would hold them
  PartCount key_count, value_count;
  Drift attention;
};

class Gate {
 public:
  Gate(const Subject& s, std::span<const TokenId> text) : s_(s), spec_(s.config.spec), layout_(s.kv.layout()), scales_(kv::KvStore::num_scales(layout_)) {
    const std::int64_t pool = layout_.num_blocks * layout_.block_size;
    const std::int64_t n = std::min({std::ssize(text), kMostTokens, pool, std::int64_t{s.config.limits.max_model_len} - 1});
    text_.assign(text.begin(), text.begin() + n);
    for (std::int32_t layer = 0; layer < spec_.num_layers; ++layer) turns_.emplace_back(s.config, s.weights, stream(), layer);
    layers_.resize(static_cast<std::size_t>(spec_.num_layers));
    const std::int64_t width = std::int64_t{spec_.num_kv_heads} * spec_.head_dim;
    for (LayerState& l : layers_) l.keys = l.values = Matrix(n, width);
    stream().copy_to_host(scales_.data(), s.kv.scales(), scales_.size() * sizeof(float));
    stream().synchronize();
  }

  void run() {
    const std::int64_t most = s_.config.limits.max_num_batched_tokens;
    for (std::int64_t begin = 0; begin < std::ssize(text_); begin += most) step(begin, std::min(most, std::ssize(text_) - begin));
  }
  void finish() {
    s_.runner.forget_sequences();
    s_.kv.zero_blocks(stream(), ceil_div(std::ssize(text_), std::int64_t{layout_.block_size}));
  }
  [[nodiscard]] KvGate result() const {
    KvGate gate;
    gate.num_tokens = std::ssize(text_);
    for (const LayerState& l : layers_) gate.layers.push_back({l.key_count.loss(), l.value_count.loss(), l.attention.relative()});
    return gate;
  }

 private:
  [[nodiscard]] device::Stream& stream() { return *s_.runner.trace().stream; }
  [[nodiscard]] float scale(std::int32_t layer, kv::Part part, std::int64_t head) const {
    const std::int64_t at = (std::int64_t{layer} * 2 + (part == kv::Part::kKey ? 0 : 1)) * spec_.num_kv_heads + head;
    return scales_[static_cast<std::size_t>(at)];
  }
  // The first `rows` rows of an activation of the step that runs.
  [[nodiscard]] Matrix read(const TensorView& activation, std::int64_t rows) {
    std::vector<float> values(static_cast<std::size_t>(rows * activation.dim(1)));
    stream().copy_to_host(values.data(), activation.data, values.size() * sizeof(float));
    stream().synchronize();
    return Matrix(rows, activation.dim(1), std::vector<double>(values.begin(), values.end()));
  }
  void step(std::int64_t begin, std::int64_t count);
  void take_layer(std::int32_t layer, std::int64_t begin, std::int64_t count);
  void store(std::int32_t layer, kv::Part part, std::int64_t begin, const Matrix& rows);
  void compare_attention(std::int32_t layer, const Matrix& q, const Matrix& attended, std::int64_t begin);

  const Subject& s_;
  const model::ModelSpec& spec_;
  kv::KvLayout layout_;
  std::vector<TokenId> text_;
  std::vector<float> scales_;  // [layers, 2, kv heads]
  std::vector<HeadTurn> turns_;  // of each layer
  std::vector<LayerState> layers_;
  std::uint64_t num_steps_ = 0;
};

void Gate::step(std::int64_t begin, std::int64_t count) {
  s_.runner.submit(runner::text_step(text_, begin, count, layout_.block_size, ++num_steps_),
                   {.path = runner::StepPath::kEager, .after_attention = [&](std::int32_t layer) { take_layer(layer, begin, count); }});
  (void)s_.runner.collect().value();
}

Matrix columns(const Matrix& m, std::int64_t begin, std::int64_t count) {
  Matrix out(m.rows, count);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) out.at(r, c) = m.at(r, begin + c);
  return out;
}

void Gate::take_layer(std::int32_t layer, std::int64_t begin, std::int64_t count) {
  const model::ModelSpec& spec = spec_;
  const std::int64_t q_size = std::int64_t{spec.num_heads} * spec.head_dim, kv_size = std::int64_t{spec.num_kv_heads} * spec.head_dim;
  const auto& activations = *s_.runner.trace().activations;
  const Matrix qkv = read(activations.qkv, count);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) positions[static_cast<std::size_t>(i)] = begin + i;
  store(layer, kv::Part::kKey, begin, turns_[static_cast<std::size_t>(layer)].values(columns(qkv, q_size, kv_size), positions, HeadTurn::Of::kKeys));
  store(layer, kv::Part::kValue, begin, columns(qkv, q_size + kv_size, kv_size));
  compare_attention(layer, read(activations.q, count), read(activations.attended, count), begin);
}

// What the FP8 cache makes of new keys or values, and what a 16-bit one would hold.
void Gate::store(std::int32_t layer, kv::Part part, std::int64_t begin, const Matrix& rows) {
  LayerState& l = layers_[static_cast<std::size_t>(layer)];
  Matrix& held = part == kv::Part::kKey ? l.keys : l.values;
  PartCount& count = part == kv::Part::kKey ? l.key_count : l.value_count;
  const double largest = reference::round_to(layout_.dtype, std::numeric_limits<double>::infinity());
  for (std::int64_t r = 0; r < rows.rows; ++r)
    for (std::int64_t c = 0; c < rows.cols; ++c) {
      const double x = rows.at(r, c), s = static_cast<double>(scale(layer, part, c / spec_.head_dim)), stored = reference::round_to(layout_.dtype, x / s);
      held.at(begin + r, c) = reference::round_to(s_.config.spec.dtype, x);
      ++count.numbers;
      count.largest = std::max(count.largest, std::fabs(x));
      count.saturated += std::fabs(x / s) > largest ? 1 : 0;
      count.flushed += x != 0.0 && stored == 0.0 ? 1 : 0;
      count.drift.add(stored * s, x);
    }
}

void Gate::compare_attention(std::int32_t layer, const Matrix& q, const Matrix& attended, std::int64_t begin) {
  LayerState& l = layers_[static_cast<std::size_t>(layer)];
  const model::LayerMask mask = spec_.mask_of(layer);
  const std::int64_t d = spec_.head_dim, group = spec_.num_heads / spec_.num_kv_heads;
  const reference::ScoreRule rule{.scale = spec_.attention_scale(), .soft_cap = mask.soft_cap};
  for (std::int64_t r = 0; r < q.rows; ++r) {
    const std::int64_t position = begin + r;
    if (position % kEveryRow != kEveryRow - 1 && position != std::ssize(text_) - 1) continue;
    for (std::int64_t head = 0; head < spec_.num_heads; ++head) {
      const std::int64_t first = reference::first_visible({.window = mask.window, .chunk = mask.chunk}, position);
      Matrix keys(position + 1 - first, d), values(position + 1 - first, d);
      for (std::int64_t t = first; t <= position; ++t)
        for (std::int64_t i = 0; i < d; ++i) {
          keys.at(t - first, i) = l.keys.at(t, head / group * d + i);
          values.at(t - first, i) = l.values.at(t, head / group * d + i);
        }
      const auto want = reference::attend(q.row(r).subspan(static_cast<std::size_t>(head * d), static_cast<std::size_t>(d)), keys, values, rule);
      for (std::int64_t i = 0; i < d; ++i) l.attention.add(attended.at(r, head * d + i), want.out[static_cast<std::size_t>(i)]);
    }
  }
}

std::string percent(double fraction) { return formatted("%.3g %%", 100.0 * fraction); }

std::string number(double x) { return formatted("%.3g", x); }

// A NaN is over every limit.
bool over(double x, double limit) { return !(x <= limit); }

}  // namespace

std::string KvGate::failure() const {
  std::string worst;
  double excess = 0.0;
  const auto look = [&](double x, double limit, const std::string& what, const std::string& shown) {
    if (!over(x, limit)) return;
    const double by = std::isnan(x) ? std::numeric_limits<double>::infinity() : x / limit;
    if (by > excess) worst = what + " " + shown, excess = by;
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string layer = "layer " + std::to_string(i) + ": ";
    const KvGateLayer& l = layers[i];
    look(l.attention_error, limits.attention_error, layer + "attention error", number(l.attention_error) + " is above " + number(limits.attention_error));
    look(l.keys.saturated, limits.saturated, layer + "keys saturated", percent(l.keys.saturated) + " is above " + percent(limits.saturated));
    look(l.values.saturated, limits.saturated, layer + "values saturated", percent(l.values.saturated) + " is above " + percent(limits.saturated));
  }
  return worst;
}

std::string KvGate::summary() const {
  if (layers.empty()) return "the cache is not FP8";
  const auto worst = std::ranges::max_element(layers, {}, [](const KvGateLayer& l) { return l.attention_error; });
  double saturated = 0.0, flushed = 0.0;
  for (const KvGateLayer& l : layers) {
    saturated = std::max({saturated, l.keys.saturated, l.values.saturated});
    flushed = std::max({flushed, l.keys.flushed, l.values.flushed});
  }
  return "attention error at most " + number(worst->attention_error) + " (layer " + std::to_string(worst - layers.begin()) + ", limit " + number(limits.attention_error) + "), saturated at most " + percent(saturated) +
         ", flushed to zero at most " + percent(flushed) + " of a layer, over " + std::to_string(num_tokens) + " tokens";
}

KvGate run_kv_gate(const Subject& subject, std::span<const TokenId> text) {
  if (!is_fp8(subject.kv.layout().dtype)) return {};
  QUIRE_CHECK(!text.empty()) << "nothing to measure the cache with";
  const auto started = std::chrono::steady_clock::now();
  Gate gate(subject, text);
  gate.run();
  gate.finish();
  KvGate result = gate.result();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return result;
}

}  // namespace quire::selfcheck
