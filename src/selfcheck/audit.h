// What one step left behind, operation by operation, against the reference: each operation's real inputs and outputs, of every layer that
// could be watched and of the head. Works on snapshots; reads weights alone from the device.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/weights.h"
#include "runner/runner.h"
#include "selfcheck/batches.h"
#include "selfcheck/cells.h"
#include "selfcheck/snapshot.h"
#include "selfcheck/tally.h"

namespace quire::selfcheck {

struct StepFacts {
  const runner::RunnerConfig& config;
  const model::Weights& weights;
  device::Stream& stream;
  const Batch& batch;
  const Cells& cells;
  const StepSnapshot& step;

  [[nodiscard]] std::int64_t num_tokens() const { return batch.num_tokens; }
  // "layer 0, row 1 of length 40, position 39, head 2, dim 5"
  [[nodiscard]] std::string element_name(std::int32_t layer, std::int64_t token, std::int64_t head, std::int64_t dim) const;
};

// All of the following.
void audit_step(const StepFacts& facts, Tally& tally);

void audit_layer(const StepFacts& facts, const LayerSnapshot& layer, Tally& tally);  // rope, cells, attention
void audit_padding(const StepFacts& facts, Tally& tally);                            // rows beyond the batch's
void audit_foreign_cells(const StepFacts& facts, Tally& tally);
void audit_layer_ops(const StepFacts& facts, Tally& tally);                          // norm, activation, linear of the last layer
void audit_quantised_qkv(const StepFacts& facts, const LayerSnapshot& layer, Tally& tally);  // where its input is quantised and was watched
void audit_head(const StepFacts& facts, Tally& tally);                               // logits and the greedy choice

}  // namespace quire::selfcheck
