// Recorded forward passes by (graph key, step buffers): recorded once at start, replayed by key. A graph holds launches with device
// addresses of one StepBuffers instance, so each instance has its own set.
#pragma once
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "device/graph.h"
#include "graph/dispatch.h"

namespace quire::runner {

// FULL: one graph of the whole pass. PIECEWISE: a graph for each piece between attention calls, num_layers + 1 of them.
struct RecordedStep {
  std::vector<device::Graph> pieces;
};

class RecordedSteps {
 public:
  explicit RecordedSteps(std::size_t num_buffers) : by_buffers_(num_buffers) {}

  void add(std::size_t buffers, const graph::GraphKey& key, RecordedStep step);
  // nullptr: not recorded.
  [[nodiscard]] const RecordedStep* find(std::size_t buffers, const graph::GraphKey& key) const;
  [[nodiscard]] std::size_t num_graphs() const { return num_graphs_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of recorded launches

 private:
  std::vector<std::unordered_map<graph::GraphKey, RecordedStep>> by_buffers_;
  std::size_t num_graphs_ = 0, bytes_ = 0;
};

}  // namespace quire::runner
