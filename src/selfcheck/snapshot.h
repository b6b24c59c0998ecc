// Host copies of what one step read and left behind, so that steps can be compared with the reference and with each other after the
// device has gone on. Taken through the step's own stream; judges nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/matrix.h"
#include "runner/runner.h"
#include "selfcheck/batches.h"
#include "selfcheck/cells.h"

namespace quire::selfcheck {

// One layer's attention, as its launches left it.
struct LayerSnapshot {
  std::int32_t layer = 0;
  reference::Matrix qkv, q, attended;  // rows: the step's tokens; attended: padded tokens too
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
  std::vector<double> tokens;  // [rows], sampled; -1: none
};

inline constexpr std::int64_t kMostDenseTokens = 8;  // of a step that the dense operations are checked on

[[nodiscard]] LayerSnapshot take_layer(const runner::StepTrace& trace, std::int64_t num_tokens, std::int32_t layer);

// The rest of a step that `layers` were watched in; the step has ended with `result`.
struct EndedStep {
  const runner::StepTrace& trace;
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
