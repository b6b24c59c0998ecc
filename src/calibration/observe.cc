#include "calibration/observe.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/checked.h"
#include "model/forward.h"
#include "runner/text_step.h"

namespace quire::calibration {
namespace {

using model::Site;

// Columns of one kind of head in a row of queries, keys and values.
struct Heads {
  std::int64_t first_column = 0, count = 0;
};

class Observer {
 public:
  Observer(const Subject& s, const ObserveHooks& hooks) : s_(s), spec_(s.config.spec), hooks_(hooks) {
    const auto kv_heads = static_cast<std::size_t>(spec_.num_kv_heads);
    LayerRange none;
    none.queries = none.keys = none.values = std::vector<float>(kv_heads, 0.0f);
    out_.layers.assign(static_cast<std::size_t>(spec_.num_layers), none);
    const kv::KvLayout& layout = s.kv.layout();
    window_ = std::min({kWindowTokens, std::int64_t{s.config.limits.max_num_batched_tokens}, std::int64_t{s.config.limits.max_model_len} - 1, layout.num_blocks * layout.block_size});
  }

  Result<Ranges> run(std::span<const TokenId> text) {
    const std::int64_t total = ceil_div(std::ssize(text), window_);
    for (std::int64_t w = 0; w < total && bad_.empty(); ++w) {
      const Status ran = run_window(text.subspan(static_cast<std::size_t>(w * window_), static_cast<std::size_t>(std::min(window_, std::ssize(text) - w * window_))));
      if (!ran.ok()) return ran.error();
      if (hooks_.progress) hooks_.progress(w + 1, total);
    }
    const kv::KvLayout& layout = s_.kv.layout();
    s_.kv.zero_blocks(stream(), ceil_div(std::min(window_, std::ssize(text)), std::int64_t{layout.block_size}));
    if (!bad_.empty()) return Error{ErrorCode::kCorrupt, "the model gives NaN or infinity on this text: " + bad_, {}};
    out_.num_tokens = std::ssize(text);
    out_.num_windows = total;
    return std::move(out_);
  }

 private:
  [[nodiscard]] device::Stream& stream() { return *s_.runner.trace().stream; }
  [[nodiscard]] LayerRange& layer_range(std::int32_t layer) { return out_.layers[static_cast<std::size_t>(layer)]; }

  Status run_window(std::span<const TokenId> tokens) {
    rows_ = std::ssize(tokens);
    s_.runner.submit(runner::text_step(tokens, 0, rows_, s_.kv.layout().block_size, 1), {.path = runner::StepPath::kEager, .at_site = [&](Site site, std::int32_t layer) { look(site, layer); }});
    const auto result = s_.runner.collect();
    if (!result.ok()) return result.error();
    for (const RowResult& row : result->rows)
      if (row.failure && bad_.empty()) bad_ = row.failure->message;
    s_.runner.forget_sequences();
    return {};
  }

  // The window's rows of an activation.
  void read(const TensorView& activation) {
    values_.resize(static_cast<std::size_t>(rows_ * activation.dim(1)));
    stream().synchronize();
    stream().copy_to_host(values_.data(), activation.data, values_.size() * sizeof(float));
    stream().synchronize();
  }

  void look(Site site, std::int32_t layer) {
    if (site != Site::kQkvOutput && !hooks_.linear_inputs) return;
    const model::Activations& a = *s_.runner.trace().activations;
    LayerRange& range = layer_range(layer);
    switch (site) {
      case Site::kQkvInput: return take(a.hidden, range.qkv_input, layer, "the input of q, k and v");
      case Site::kQkvOutput: return take_heads(a.qkv, range, layer);
      case Site::kOInput: return take(a.attended, range.o_input, layer, "attention's output");
      case Site::kGateUpInput: return take(a.hidden, range.gate_up_input, layer, "the input of gate and up");
      case Site::kDownInput: return take(a.activated, range.down_input, layer, "the input of down");
    }
  }

  void raise(float& most, float x, std::int32_t layer, const char* what) {
    if (!std::isfinite(x) && bad_.empty()) bad_ = std::string(what) + " of layer " + std::to_string(layer);
    most = std::max(most, std::fabs(x));
  }

  void take(const TensorView& activation, float& most, std::int32_t layer, const char* what) {
    read(activation);
    for (const float x : values_) raise(most, x, layer, what);
  }

  void take_heads(const TensorView& qkv, LayerRange& range, std::int32_t layer) {
    read(qkv);
    const std::int64_t d = spec_.head_dim, q_size = spec_.num_heads * d, kv_size = spec_.num_kv_heads * d;
    const model::LayerWeights& w = s_.weights.layers()[static_cast<std::size_t>(layer)];
    cos_sin_ = &on_host(w.cos_sin, window_ * d);
    if (w.q_norm != nullptr) norm_heads({0, spec_.num_heads}, on_host(w.q_norm, d));
    if (w.k_norm != nullptr) norm_heads({q_size, spec_.num_kv_heads}, on_host(w.k_norm, d));
    take_rotated({0, spec_.num_heads}, range.queries, layer, "a query");
    take_rotated({q_size, spec_.num_kv_heads}, range.keys, layer, "a key");
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t c = 0; c < kv_size; ++c) raise(range.values[static_cast<std::size_t>(c / d)], at(row, q_size + kv_size + c), layer, "a value");
    if (hooks_.before_store && bad_.empty()) hooks_.before_store(layer, range);  // no scale holds infinity
  }

  // Tables of the device, read once: a model has few.
  [[nodiscard]] const std::vector<float>& on_host(const float* table, std::int64_t count) {
    std::vector<float>& host = tables_[table];
    if (host.empty()) {
      host.resize(static_cast<std::size_t>(count));
      stream().copy_to_host(host.data(), table, host.size() * sizeof(float));
      stream().synchronize();
    }
    return host;
  }

  [[nodiscard]] float& at(std::int64_t row, std::int64_t column) {
    const std::int64_t columns = (spec_.num_heads + 2 * std::int64_t{spec_.num_kv_heads}) * spec_.head_dim;
    return values_[static_cast<std::size_t>(row * columns + column)];
  }

  // As the kernel that stores them does.
  void norm_heads(Heads heads, const std::vector<float>& weight) {
    const std::int64_t d = spec_.head_dim;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t head = 0; head < heads.count; ++head) {
        const std::int64_t first = heads.first_column + head * d;
        float sum = 0.0f;
        for (std::int64_t i = 0; i < d; ++i) sum += at(row, first + i) * at(row, first + i);
        const float scale = 1.0f / std::sqrt(sum / static_cast<float>(d) + static_cast<float>(spec_.rms_norm_eps));
        for (std::int64_t i = 0; i < d; ++i) at(row, first + i) = at(row, first + i) * scale * weight[static_cast<std::size_t>(i)];
      }
  }

  // Row r is at position r. `most` has one entry for each KV head.
  void take_rotated(Heads heads, std::vector<float>& most, std::int32_t layer, const char* what) {
    const std::int64_t d = spec_.head_dim, half = d / 2, group = heads.count / std::ssize(most);
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* cos = cos_sin_->data() + row * d;
      for (std::int64_t head = 0; head < heads.count; ++head) {
        float& to = most[static_cast<std::size_t>(head / group)];
        for (std::int64_t i = 0; i < half; ++i) {
          const float x = at(row, heads.first_column + head * d + i), y = at(row, heads.first_column + head * d + half + i);
          raise(to, x * cos[i] - y * cos[half + i], layer, what);
          raise(to, y * cos[i] + x * cos[half + i], layer, what);
        }
      }
    }
  }

  const Subject& s_;
  const model::ModelSpec& spec_;
  const ObserveHooks& hooks_;
  std::int64_t window_ = 0, rows_ = 0;  // tokens: of a full window, of the one that runs
  std::vector<float> values_;
  const std::vector<float>* cos_sin_ = nullptr;          // of the layer that is looked at
  std::map<const float*, std::vector<float>> tables_;    // by their place on the device
  Ranges out_;
  std::string bad_;  // the first number that is none, and where
};

}  // namespace

Result<Ranges> observe(const Subject& subject, std::span<const TokenId> text, const ObserveHooks& hooks) {
  if (text.empty()) return invalid("the calibration text has no tokens");
  return Observer(subject, hooks).run(text);
}

}  // namespace quire::calibration
