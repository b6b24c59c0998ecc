// A model on a CPU device with its runner, ready for step plans: what runner, engine and determinism tests share.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention/capability.h"
#include "device/cpu/cpu_device.h"
#include "kv/store/kv_store.h"
#include "model/checkpoint.h"
#include "model/weights.h"
#include "runner/runner.h"
#include "scheduler/scheduler.h"

namespace quire::test {

struct ModelBenchOptions {
  std::string model_dir;                 // read from here ...
  std::optional<model::ModelSpec> dummy; // ... or dummy weights of this spec
  std::optional<DType> dtype;            // default: the model's
  std::optional<DType> kv_dtype;         // default: dtype
  model::GgufWeights gguf = model::GgufWeights::kDequantised;  // of a model_dir that is a GGUF file
  std::optional<model::LinearScheme> on_load;  // all linear layers of the model are quantised while they are read
  bool fp8_fnuz = false;                 // quantised weights and inputs are FNUZ's e4m3
  std::string backend = "CPU_UNIFIED";
  int num_threads = 1;
  std::string graph_mode = "NONE";      // asked for; resolved against the backend
  SchedulerConfig scheduler;             // num_blocks must be set
  std::vector<device::CpuKernel> kernels;             // default: all_cpu_kernels()
  std::optional<graph::GraphMode> forced_graph_mode;  // runs whatever the backend supports; graph_mode is not asked
  std::optional<attention::GraphSupport> claimed_graph_support;  // the row says this of itself, whatever its kernels do
};

// models/gsm-tiny with a cache of `kv`, steps of `budget` tokens, and 64 blocks.
[[nodiscard]] ModelBenchOptions gsm_tiny(DType kv, std::int32_t budget = 512);

// Everything a test needs, alive together. Failures end the process with the reason.
struct ModelBench {
  explicit ModelBench(const ModelBenchOptions& options);
  model::ModelSpec spec;
  std::unique_ptr<device::CpuDevice> device;
  std::unique_ptr<model::Weights> weights;
  std::unique_ptr<kv::KvStore> kv;
  std::vector<float> kv_scales;  // that kv was given
  runner::RunnerConfig config;
  std::unique_ptr<runner::ModelRunner> runner;
  const attention::BackendCaps* backend = nullptr;
  std::unique_ptr<attention::BackendCaps> claimed;  // a row of the table that says something else
  runner::RecordedGraphs graphs_recorded;
};

// All CPU kernels of the program.
[[nodiscard]] std::vector<device::CpuKernel> all_cpu_kernels();

struct FinishedSequence {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;                 // of the outputs, when asked for
  std::vector<std::vector<std::pair<TokenId, float>>> tops;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::int32_t num_cached = 0;
  std::string error;
};

// Runs sequences through scheduler and runner until all are done; results in the order of `specs`. Steps are bounded.
struct RunResult {
  std::vector<FinishedSequence> sequences;
  SchedulerStats stats;
};
// Sequences of random tokens with these prompt lengths and three greedy tokens each, every token scored.
[[nodiscard]] std::vector<SequenceSpec> scored_sequences(std::int32_t vocab_size, const std::vector<int>& prompt_lengths);
[[nodiscard]] RunResult run_all(runner::ModelRunner& runner, Scheduler& scheduler, std::vector<SequenceSpec> specs, std::int32_t depth);

}  // namespace quire::test
