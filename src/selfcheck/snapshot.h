// Host copies of what one step read and left behind, so that steps can be compared with the reference and with each other after the
// device has gone on. Taken through the step's own stream; judges nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/weights.h"
#include "reference/matrix.h"
#include "reference/quantise.h"
#include "runner/runner.h"
#include "selfcheck/batches.h"
#include "selfcheck/cells.h"

namespace quire::selfcheck {

// A linear's input that is quantised: float32, and each copy as it is stored. The first at most kMostDenseTokens tokens. Empty: not quantised.
struct QuantisedInput {
  reference::Matrix x;
  std::vector<reference::Quantised> copies;
};

// One layer's attention, as its launches left it.
struct LayerSnapshot {
  std::int32_t layer = 0;
  reference::Matrix qkv, q, attended;  // rows: the step's tokens; attended: padded tokens too
  QuantisedInput input;                // of qkv; where attention was watched alone: later inputs take its place
};

struct StepSnapshot {
  std::vector<std::int64_t> positions, slots;  // [tokens]
  std::int64_t padded_tokens = 0;              // that ran: at least the batch's
  // Layers whose attention could be watched: all of them, or (FULL graphs) the last alone.
  std::vector<LayerSnapshot> layers;
  std::vector<OwnBlock> own;
  std::vector<std::vector<std::byte>> cells;  // [layers of the model]: the own blocks one after another
  std::int64_t foreign_bytes = 0;             // that changed though no new token has its cells there
  std::string first_foreign;                  // where
  // Of the last layer and the head; the first at most kMostDenseTokens tokens, and each row's logits.
  reference::Matrix residual, hidden, gate_up, activated, projected, gathered, logits;
  QuantisedInput down_input, head_input;  // down's only where lm_head's did not take its place
  std::vector<double> tokens;  // [rows], sampled; -1: none
};

inline constexpr std::int64_t kMostDenseTokens = 8;  // of a step that the dense operations are checked on

// Just after the attention of `layer`.
[[nodiscard]] LayerSnapshot take_watched_layer(const runner::StepTrace& trace, const model::Weights& weights, std::int64_t num_tokens, std::int32_t layer);

// The rest of a step that `layers` were watched in; the step has ended with `result`.
struct EndedStep {
  const runner::StepTrace& trace;
  const model::Weights& weights;
  const Batch& batch;
  const Cells& cells;
  const StepResult& result;
};
[[nodiscard]] StepSnapshot take_step(const EndedStep& step, std::vector<LayerSnapshot> layers);

// Marks attention's output rows with NaN, more of them than any batch here is padded to, so that a row nobody computed shows, and a padded
// row that somebody computed.
void mark_attended(const runner::StepTrace& trace);
void unmark_attended(const runner::StepTrace& trace);

}  // namespace quire::selfcheck
