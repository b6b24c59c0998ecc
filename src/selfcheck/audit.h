// What one step left behind, operation by operation, against the reference: each operation's real inputs and outputs as the last layer and
// the head had them. Reads device memory only through the step's stream.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/forward.h"
#include "reference/matrix.h"
#include "runner/runner.h"
#include "runner/step_inputs.h"
#include "selfcheck/batches.h"
#include "selfcheck/cells.h"
#include "selfcheck/tally.h"

namespace quire::selfcheck {

struct StepFacts {
  const runner::RunnerConfig& config;
  const model::Weights& weights;
  const Batch& batch;
  const Cells& cells;              // downloaded after the step
  const runner::StepTrace& trace;
  const StepResult& result;

  [[nodiscard]] std::int64_t num_tokens() const { return batch.num_tokens; }
  [[nodiscard]] std::int64_t padded_tokens() const { return static_cast<std::int64_t>(trace.inputs->positions.size()); }
  // The class and place of a token of the step.
  [[nodiscard]] const char* class_of(std::int64_t token) const;
  [[nodiscard]] std::string place_of(std::int64_t token) const;
  // The first `rows` rows of an activation.
  [[nodiscard]] reference::Matrix read(const TensorView& activation, std::int64_t rows) const;
};

// Marks the attention output of `rows` rows, so that a row nobody computed shows, and a padded row that somebody computed.
void poison_attended(const runner::StepTrace& trace, std::int64_t rows);

void audit_rope_and_cache(const StepFacts& facts, Tally& tally);
void audit_attention(const StepFacts& facts, Tally& tally);
void audit_layer_ops(const StepFacts& facts, Tally& tally);  // norm, activation, linear
void audit_head(const StepFacts& facts, Tally& tally);       // logits and the greedy choice

}  // namespace quire::selfcheck
