// A small Llama with random weights of useful size (scores and gates far from zero, so that every part of a layer matters), on a CPU device,
// driven step by step without a scheduler.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "kv/store/kv_store.h"
#include "model/forward.h"
#include "model/weights.h"
#include "reference/llama.h"

namespace quire::test {

// Values of a parameter from its name alone, as a file holds them: rounded to `dtype`, FP8 weights to e4m3, scales to bfloat16 and about
// as large as makes their numbers like those of a weight that is not quantised. Norms lie around `norm_mean`.
[[nodiscard]] reference::Matrix random_parameter(const model::ParameterSpec& parameter, DType dtype, double norm_mean = 1.0);
// What a linear layer's weight of `spec` stands for, quantised or not: numbers times scales. `name`: up to "weight". With
// spec.quant.on_load after quantising to `fp8`.
[[nodiscard]] reference::Matrix random_weight(const model::ModelSpec& spec, const std::string& name, DType dtype, DType fp8 = DType::kFp8E4m3);

// Serves random_parameter()s; counts reads by name.
class RandomWeights final : public model::WeightSource {
 public:
  explicit RandomWeights(DType dtype, double norm_mean = 1.0) : dtype_(dtype), norm_mean_(norm_mean) {}
  [[nodiscard]] Result<Raw> read(const model::ParameterSpec& parameter) override;
  std::map<std::string, int> reads;

 private:
  DType dtype_;
  double norm_mean_;
  std::vector<std::byte> bytes_;
};

struct LayersCase {
  model::ModelSpec spec;
  DType dtype = DType::kF32, kv_dtype = DType::kF32;
  std::string backend = "CPU_UNIFIED";
  int threads = 1;
  std::int32_t block_size = 16;
  bool fp8_fnuz = false;  // of quantised weights and inputs
};

inline constexpr std::int64_t kMaxModelLen = 128;

// A small model: 2 layers, 8 query heads.
[[nodiscard]] model::ModelSpec small_spec(std::int32_t num_kv_heads, std::int32_t head_dim);

[[nodiscard]] reference::LlamaReference reference_of(const LayersCase& c);

// Rows of a step: sequence, tokens already computed, tokens to compute.
struct StepRow {
  std::size_t sequence;
  std::int32_t num_computed, num_new;
};

struct LayersRig {
  // Weights from `source`; nullptr: RandomWeights.
  LayersRig(const LayersCase& layers, const std::vector<std::vector<TokenId>>& sequences, model::WeightSource* source = nullptr);
  // Runs the step now; logits of all its tokens, in row order.
  [[nodiscard]] std::vector<float> eager(const std::vector<StepRow>& rows);
  // Records the forward pass and the logits for the largest step there may be, with every step input poisoned.
  void record(device::Graph& graph);
  [[nodiscard]] std::vector<float> replay(const device::Graph& graph, const std::vector<StepRow>& rows);

  static constexpr std::int64_t kMaxTokens = 72, kMaxRows = 6;
  LayersCase c;
  std::vector<std::vector<TokenId>> sequences;
  std::unique_ptr<device::CpuDevice> device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<model::Weights> weights;
  std::unique_ptr<kv::KvStore> kv;
  device::Buffer memory;
  model::Activations act;

 private:
  void fill(const std::vector<StepRow>& rows);  // padded to the largest step
  void launch(std::int64_t num_tokens, const attention::DeviceWork& work);
  [[nodiscard]] attention::DeviceWork work(bool recorded) const;
  [[nodiscard]] std::vector<float> read_logits(std::int64_t num_tokens) const;

  std::vector<std::vector<std::int32_t>> blocks_;  // per sequence
  std::int64_t table_stride_ = 0;
  std::int64_t num_tokens_ = 0;
  // Step inputs at fixed addresses, as a device would hold them.
  std::vector<std::int32_t> token_ids_, positions_, query_start_, seq_lens_, block_table_, token_rows_;
  std::vector<std::int64_t> slots_;
  std::vector<attention::AttnWork> decode_, prefill_, all_;
  std::vector<attention::DecodePart> parts_;  // sequences are shorter than two partitions: no entry is split
  std::vector<std::int32_t> counts_;
};

}  // namespace quire::test
