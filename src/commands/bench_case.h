// One attention shape in a device's memory: a paged cache of several layers with permuted blocks, queries, and a backend's planned and
// recorded launches. Checks against the reference, then times replays.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/backend.h"
#include "attention/plan.h"
#include "base/result.h"
#include "commands/bench_shapes.h"
#include "commands/bench_timing.h"
#include "device/device.h"
#include "kv/store/kv_store.h"
#include "selfcheck/attention_sample.h"

namespace quire::commands {

struct CaseSettings {
  DType kv_dtype = DType::kBF16;
  std::int32_t block_size = 16;
  std::int64_t last_cache_bytes = 0;  // layers are visited in turn, enough of them that none is still in this cache when it comes again
  std::int64_t free_bytes = 0;        // of memory
};

struct CaseSizes {
  std::int32_t num_layers = 1;
  std::int64_t layer_bytes = 0, total_bytes = 0;  // cache of one layer; everything that the case allocates
  bool from_memory = true;  // false: the layers together may stay in the last cache
};
// As many layers as the cache asks for, or fewer when memory ends there. An error says what one layer needs when even that does not fit.
[[nodiscard]] Result<CaseSizes> case_sizes(const AttentionShape& shape, const CaseSettings& settings);

// A backend's launches for one layer: work lists and partials on the device. Layers differ in their cells alone.
struct PlannedBackend {
  const attention::BackendCaps* caps = nullptr;
  device::Buffer memory;
  attention::DeviceWork work;
  std::vector<device::Graph> layers;    // recorded, one for each
  std::vector<std::string> kernels;     // that a layer launches, in order
  std::int64_t launched_units = 0;
};

class AttentionCase {
 public:
  // Allocates and fills. `caps` of any backend that will run: all must share its cell order.
  [[nodiscard]] static Result<std::unique_ptr<AttentionCase>> create(device::Device& device, const AttentionShape& shape, const CaseSettings& settings, const attention::BackendCaps& caps);

  [[nodiscard]] const CaseSizes& sizes() const { return sizes_; }
  [[nodiscard]] Result<PlannedBackend> plan(const attention::BackendCaps& caps);
  // Runs the last layer once and compares sampled rows with the reference; `seconds` is how long that run took.
  struct Checked {
    selfcheck::Verdict verdict;
    double seconds = 0.0;
  };
  [[nodiscard]] Checked check(const PlannedBackend& backend);
  [[nodiscard]] Timing time(const PlannedBackend& backend, const TimingRules& rules);

 private:
  AttentionCase(device::Device& device, const AttentionShape& shape, const CaseSettings& settings, const CaseSizes& sizes, kv::KvStore store, device::Buffer memory);
  template <class V>
  void visit(V& v);
  void fill_inputs();
  [[nodiscard]] device::Graph record(const PlannedBackend& backend, std::int32_t layer);
  [[nodiscard]] selfcheck::AttentionRows rows() const;
  [[nodiscard]] std::vector<selfcheck::SampledSequence> sampled_sequences() const;

  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  AttentionShape shape_;
  CaseSettings settings_;
  CaseSizes sizes_;
  kv::KvStore store_;
  device::Buffer memory_;
  TensorView q_, out_, query_start_, seq_lens_, block_table_;
  std::vector<std::vector<std::int32_t>> blocks_;  // of each sequence
  float scale_ = 0.0f;
  std::unique_ptr<selfcheck::AttentionSample> sample_;
};

}  // namespace quire::commands
