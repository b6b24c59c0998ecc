// A model's weights on a device, in the device's own order: one arena, sized and carved by one visitor, filled once.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "model/checkpoint.h"
#include "model/kept_blocks.h"
#include "model/spec.h"
#include "ops/ops.h"

namespace quire::model {

// Norm weights have the model's offset in them.
struct LayerWeights {
  const float* input_norm = nullptr;         // [hidden]
  const float* feed_forward_norm = nullptr;  // [hidden], before the feed-forward block
  const float *attended_norm = nullptr, *fed_norm = nullptr;  // [hidden], of what the two blocks put out; nullptr: none
  const float *q_norm = nullptr, *k_norm = nullptr;           // [head_dim], of each head; nullptr: none
  const float* cos_sin = nullptr;            // [max_model_len, head_dim]
  ops::Weight qkv, o, gate_up, down;         // qkv: q rows, then k, then v; gate_up: gate rows, then up
};

// Read by others while loading runs.
struct LoadProgress {
  std::atomic<std::int64_t> parameters_done{0}, parameters_total{0};
};

struct WeightsOptions {
  DType dtype = DType::kBF16;        // of matrices that are not quantised; norms and biases are float32
  std::int64_t max_model_len = 0;    // rows of the rotary tables
  bool fp8_fnuz = false;             // quantised matrices are stored as FNUZ's e4m3
  GgufWeights gguf = GgufWeights::kDequantised;  // what becomes of a GGUF file's quantised matrices (kept_blocks.h)
};

class Weights {
 public:
  // Bytes of the arena, from shapes alone.
  [[nodiscard]] static std::size_t arena_bytes(const ModelSpec& spec, const WeightsOptions& options);
  // The arena with every tensor in its place, and nothing in them (static input scales are 1): what launches are counted with. Refused: a
  // quantised linear layer that the device has no kernel for.
  [[nodiscard]] static Result<Weights> place(device::Device& device, const ModelSpec& spec, const WeightsOptions& options);
  // Reads every parameter exactly once from `source`. Non-finite values, and scales that are not above 0, are refused, naming tensor and
  // index. Parts of a fused projection keep scales of their own.
  [[nodiscard]] static Result<Weights> load(device::Device& device, const ModelSpec& spec, const WeightsOptions& options, WeightSource& source, LoadProgress& progress);

  [[nodiscard]] const ops::EmbeddingTable& embedding() const { return embedding_; }
  [[nodiscard]] const ops::Weight& lm_head() const { return lm_head_; }
  [[nodiscard]] const float* final_norm() const { return final_norm_; }
  [[nodiscard]] const std::vector<LayerWeights>& layers() const { return layers_; }

 private:
  Weights() = default;
  struct Places;  // of every tensor in the arena
  [[nodiscard]] static Result<Weights> place(device::Device& device, const ModelSpec& spec, const WeightsOptions& options, Places& places);
  void set_layers(const ModelSpec& spec, const Places& places);
  device::Buffer arena_;
  ops::EmbeddingTable embedding_;
  ops::Weight lm_head_;
  const float* final_norm_ = nullptr;
  std::vector<LayerWeights> layers_;
};

}  // namespace quire::model
