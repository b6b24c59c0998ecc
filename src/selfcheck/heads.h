// What a layer does to its queries and keys between their projection and their use, in the reference's words: the norm of each head, where
// the model has one, and the rotation.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/weights.h"
#include "reference/matrix.h"
#include "reference/rope.h"
#include "runner/runner.h"

namespace quire::selfcheck {

class HeadTurn {
 public:
  // Reads the norms' weights through the stream.
  HeadTurn(const runner::RunnerConfig& config, const model::Weights& weights, device::Stream& stream, std::int32_t layer);

  enum class Of : std::uint8_t { kQueries, kKeys };
  struct Turned {
    reference::Matrix values;
    std::vector<double> bounds;  // one for each element, of a kernel's result rounded to the asked type
  };
  // x [tokens, heads * head_dim], as float32 holds it.
  [[nodiscard]] Turned turn(const reference::Matrix& x, std::span<const std::int64_t> positions, Of of, DType output) const;
  [[nodiscard]] reference::Matrix values(const reference::Matrix& x, std::span<const std::int64_t> positions, Of of) const;

 private:
  struct Normed {
    reference::Matrix values;
    std::vector<double> errors;  // empty: exact
  };
  [[nodiscard]] Normed normed(const reference::Matrix& x, Of of) const;
  reference::Rotation rotation_;
  std::vector<double> q_norm_, k_norm_;  // empty: none
  double eps_ = 0.0;
};

}  // namespace quire::selfcheck
