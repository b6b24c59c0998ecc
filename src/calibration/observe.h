// What a text does to a model's numbers: the largest magnitudes that reach the KV cache and the linear layers, layer by layer, from the real
// runner. Knows token ids, no text; must not know what becomes of the numbers (scales.h).
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/store/kv_store.h"
#include "model/weights.h"
#include "runner/runner.h"

namespace quire::calibration {

// Largest |x| of one layer.
struct LayerRange {
  // [KV heads]; queries and keys after rotation, queries over the heads that share the KV head.
  std::vector<float> queries, keys, values;
  float qkv_input = 0.0f, o_input = 0.0f, gate_up_input = 0.0f, down_input = 0.0f;
};

struct Ranges {
  std::vector<LayerRange> layers;
  std::int64_t num_tokens = 0, num_windows = 0;
};

// With no step submitted; the pool's contents are used up.
struct Subject {
  const runner::RunnerConfig& config;
  const model::Weights& weights;
  kv::KvStore& kv;
  runner::ModelRunner& runner;
};

struct ObserveHooks {
  bool linear_inputs = true;  // look at them; to be left out of a model whose linear inputs are quantised
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // after each window
  // Before the keys and values of a layer are stored: its ranges over all windows so far, this one included. The last time to set the
  // scales that they are stored with.
  std::function<void(std::int32_t layer, const LayerRange& so_far)> before_store = {};
};

inline constexpr std::int64_t kWindowTokens = 512;

// Runs the whole text in windows of at most kWindowTokens tokens (fewer where a step, the context or the pool holds fewer), each a sequence
// of its own and one eager step. Afterwards the touched blocks are zero and the runner knows no sequence.
// Errors: an empty text (kInvalidArgument); NaN or infinity in a layer (kCorrupt), named with its layer.
[[nodiscard]] Result<Ranges> observe(const Subject& subject, std::span<const TokenId> text, const ObserveHooks& hooks = {});

}  // namespace quire::calibration
