#include "runner/recorded_steps.h"

#include <utility>

#include "base/check.h"

namespace quire::runner {

void RecordedSteps::add(std::size_t buffers, const graph::GraphKey& key, RecordedStep step) {
  for (device::Graph& piece : step.pieces) {
    piece.launches.shrink_to_fit();
    bytes_ += piece.launches.size() * sizeof(device::Launch);
    ++num_graphs_;
  }
  QUIRE_CHECK(by_buffers_.at(buffers).emplace(key, std::move(step)).second) << key.describe() << " is recorded twice";
}

const RecordedStep* RecordedSteps::find(std::size_t buffers, const graph::GraphKey& key) const {
  const auto& steps = by_buffers_.at(buffers);
  const auto found = steps.find(key);
  return found == steps.end() ? nullptr : &found->second;
}

}  // namespace quire::runner
