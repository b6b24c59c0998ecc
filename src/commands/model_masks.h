// Which masks attention must know to run a model.
#pragma once
#include "attention/capability.h"
#include "model/spec.h"

namespace quire::commands {

// Those of any layer: layers of one model share a backend.
[[nodiscard]] inline attention::MaskSet masks_of(const model::ModelSpec& spec) {
  attention::MaskSet out;
  for (const model::LayerMask& m : spec.masks) {
    if (m.window > 0) out.add(attention::Mask::kSlidingWindow);
    if (m.chunk > 0) out.add(attention::Mask::kChunkedLocal);
    if (m.soft_cap > 0.0) out.add(attention::Mask::kSoftCap);
  }
  return out;
}

}  // namespace quire::commands
