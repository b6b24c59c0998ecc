// The engine's series under vLLM's names, types, labels and buckets, and our own under `quire:`. The engine thread records; any
// thread may render. Every request that was accepted is counted exactly once when it ends, so that counts can be checked
// against a counted workload (tests/engine/metrics_test.cc).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/metrics_registry.h"
#include "scheduler/scheduler.h"

namespace quire::engine {

struct MetricsConfig {
  std::string model_name;  // first served name
  std::string engine = "0";
  std::int32_t max_model_len = 1;  // bounds the buckets of token counts
};

// One request at its end. Seconds on the engine's clock; unset where the request never got so far.
struct FinishedRequest {
  FinishReason reason = FinishReason::kStop;
  std::int32_t num_prompt_tokens = 0, num_output_tokens = 0, max_tokens = 0;
  double e2e_seconds = 0;                   // submit to end
  double queue_seconds = 0;                 // submit to first scheduling, or to the end when never scheduled
  std::optional<double> inference_seconds;  // first scheduling to last token (to the end when there is none)
  std::optional<double> prefill_seconds;    // first scheduling to first token
  std::optional<double> decode_seconds;     // first to last token
};

class Metrics {
 public:
  explicit Metrics(const MetricsConfig& config);

  // For other rooms' series. base_labels(): model_name and engine.
  [[nodiscard]] MetricsRegistry& registry() { return registry_; }
  [[nodiscard]] const MetricLabels& base_labels() const { return base_labels_; }
  [[nodiscard]] std::string render() const { return registry_.render(); }

  // vllm:cache_config_info, value 1: one label per cache setting (block_size, cache_dtype, num_gpu_blocks, ...).
  void set_cache_config(const MetricLabels& settings);
  // A backend or mode that was asked for and replaced.
  void count_fallback(const std::string& from, const std::string& to, const std::string& why);

  // Called by the engine.
  void observe_step(std::int32_t num_tokens, double seconds);
  void observe_first_token(double seconds_since_submit, std::int32_t num_prompt_tokens);
  void observe_next_token(double seconds_since_last);
  void observe_finish(const FinishedRequest& request);
  void observe_samples(std::int32_t n, std::int32_t max_output_tokens);  // all n samples of one prompt have ended
  void count_rejected();
  void observe_scheduler(const SchedulerStats& stats, std::int32_t num_running, std::int32_t num_waiting);

 private:
  MetricsRegistry registry_;
  MetricLabels base_labels_;
  SchedulerStats last_;  // engine thread only: counters are fed with differences
  Gauge running_, waiting_, kv_usage_;
  Counter prefix_queries_, prefix_hits_, preemptions_, prompt_tokens_, generation_tokens_;
  Counter success_[4];  // by FinishReason
  Histogram iteration_tokens_, prompt_length_, generation_length_, max_generation_length_, params_max_tokens_, params_n_;
  Histogram ttft_, inter_token_, time_per_output_token_, e2e_, queue_, inference_, prefill_, decode_;
  Counter steps_, rejected_;
  Histogram step_seconds_;
};

// 1, 2, 5, 10, 20, 50, ... up to and including `max`.
[[nodiscard]] std::vector<double> one_two_five_bounds(std::int32_t max);

}  // namespace quire::engine
