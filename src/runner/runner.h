// Turns a StepPlan into a StepResult: keeps the sequences' state on the device, fills the step's inputs, runs the model, samples.
// Glue only: shapes are the model's, policy is the scheduler's.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "attention/capability.h"
#include "base/result.h"
#include "device/device.h"
#include "graph/dispatch.h"
#include "kv/store/kv_store.h"
#include "model/spec.h"
#include "model/weights.h"
#include "scheduler/scheduler_config.h"
#include "scheduler/step_plan.h"

namespace quire::model {
struct Activations;
enum class Site : std::uint8_t;
}

namespace quire::runner {

struct StepInputs;

struct RunnerConfig {
  model::ModelSpec spec;
  SchedulerConfig limits;            // budgets, state rows, depth
  std::int32_t max_logprobs = 20;    // top log-probabilities a request may ask for; -1: the vocabulary
  const attention::BackendCaps* backend = nullptr;
  graph::GraphMode graph_mode = graph::GraphMode::kNone;  // resolved against the backend
  graph::BucketSet buckets;                               // sizes to record; empty exactly when the mode is NONE
};

// What recording took.
struct RecordedGraphs {
  std::size_t num_keys = 0, num_graphs = 0, bytes = 0;
};

// kByShape: by the recorded graph of the step's shape where there is one. kEager: launch by launch, whatever was recorded.
enum class StepPath : std::uint8_t { kByShape, kEager };

struct StepOptions {
  StepPath path = StepPath::kByShape;
  // Called after each layer's attention was launched, where that happens outside a graph (eager, PIECEWISE): the trace's activations are
  // then that layer's. Never called for a FULL graph, which has no place for it.
  std::function<void(std::int32_t layer)> after_attention = {};
  // Called at each site of each layer (model/forward.h) of a step that runs eagerly; what was launched before has an order, not an end:
  // the trace's stream is synchronised before its activations are read.
  std::function<void(model::Site site, std::int32_t layer)> at_site = {};
};

// What the last submitted step read and left behind, for those who check it. Valid until the next submit.
struct StepTrace {
  const StepInputs* inputs = nullptr;               // padded as they ran
  const model::Activations* activations = nullptr;  // of the last layer and, where logits were asked for, of the head
  device::Stream* stream = nullptr;                 // the step's own
};

class ModelRunner {
 public:
  // `weights`, `kv` and `device` must outlive the runner. Allocates everything it will ever need.
  [[nodiscard]] static Result<std::unique_ptr<ModelRunner>> create(device::Device& device, const RunnerConfig& config, const model::Weights& weights, kv::KvStore& kv);
  ~ModelRunner();

  // Records every graph of the mode, largest first. Once, before the first step; a step whose shape has no graph runs eagerly. `progress`
  // is called after each: how many of how many.
  RecordedGraphs record_graphs(const std::function<void(std::size_t done, std::size_t total)>& progress = {});
  // How the last submitted step ran.
  [[nodiscard]] const graph::GraphChoice& last_choice() const;

  // Enqueues a step; at most `depth` steps are between submit and collect. Steps must come in order.
  void submit(const StepPlan& plan, const StepOptions& options = {});
  // Results of the oldest submitted step.
  [[nodiscard]] Result<StepResult> collect();

  [[nodiscard]] StepTrace trace() const;
  // As after create(): no sequence is known and the next step is step 1. Graphs stay. Nothing may be in flight.
  void forget_sequences();

 private:
  struct Impl;
  explicit ModelRunner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::runner
