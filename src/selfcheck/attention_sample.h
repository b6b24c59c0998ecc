// Sampled rows of one attention launch, however large, against the reference: some sequences get cells that are known, with NaN past their
// end, and some of their rows are compared under derived bounds; of the others only that every row was written. Used by benches, whose
// shapes are far too large to be compared whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "kv/store/kv_store.h"
#include "reference/matrix.h"
#include "selfcheck/selfcheck.h"
#include "selfcheck/tally.h"
#include "tensor/view.h"

namespace quire::selfcheck {

struct SampledSequence {
  std::vector<std::int32_t> blocks;  // its block table, without spare entries
  std::int32_t seq_len = 0, num_new = 0;
  std::int64_t first_row = 0;        // of its new tokens among the launch's query rows
};

// What a launch reads and writes, on the device: float32 [rows, num_heads * head_dim].
struct AttentionRows {
  TensorView queries, out;
  std::int32_t num_heads = 0;
  double scale = 0.0;
};

class AttentionSample {
 public:
  // Fills the last layer's cells of these sequences, which share no block. The store outlives the sample.
  AttentionSample(const kv::KvStore& store, std::vector<SampledSequence> sequences, device::Stream& stream);
  // Before the launch: a row that nobody writes stays NaN.
  void mark_output(const AttentionRows& rows, device::Stream& stream) const;
  // After the launch over the last layer.
  [[nodiscard]] Verdict check(const AttentionRows& rows, device::Stream& stream) const;

 private:
  void fill(const SampledSequence& s, device::Stream& stream);
  [[nodiscard]] reference::Matrix context(const SampledSequence& s, kv::Part part, std::int32_t kv_head) const;
  void check_heads(const SampledSequence& s, std::int32_t kv_head, const AttentionRows& rows, device::Stream& stream, Tally::Line line) const;

  const kv::KvStore& store_;
  kv::KvLayout one_;  // of one block of one layer
  std::vector<SampledSequence> sequences_;
  std::unordered_map<std::int32_t, std::vector<std::byte>> images_;  // by block
  std::vector<float> scales_;                                        // as the store keeps them
};

}  // namespace quire::selfcheck
