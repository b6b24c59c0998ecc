#include "engine/metrics.h"

#include <algorithm>
#include <utility>

namespace quire::engine {
namespace {

const std::vector<double> kFirstTokenBounds = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
const std::vector<double> kTokenGapBounds = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const std::vector<double> kRequestBounds = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kIterationBounds = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const std::vector<double> kSampleCountBounds = {1, 2, 5, 10, 20};
const std::vector<double> kStepBounds = {.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60};

MetricLabels with(MetricLabels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

}  // namespace

std::vector<double> one_two_five_bounds(std::int32_t max) {
  std::vector<double> bounds;
  for (std::int64_t decade = 1;; decade *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      if (decade * factor > max) return bounds;
      bounds.push_back(static_cast<double>(decade * factor));
    }
  }
}

Metrics::Metrics(const MetricsConfig& config) : base_labels_{{"engine", config.engine}, {"model_name", config.model_name}} {
  const auto gauge = [this](const char* name, const char* help) { return registry_.gauge(name, help, base_labels_); };
  const auto counter = [this](const char* name, const char* help) { return registry_.counter(name, help, base_labels_); };
  const auto histogram = [this](const char* name, const char* help, const std::vector<double>& bounds) {
    return registry_.histogram(name, help, base_labels_, bounds);
  };
  const std::vector<double> lengths = one_two_five_bounds(config.max_model_len);

  running_ = gauge("vllm:num_requests_running", "Requests that hold a row of the running batch.");
  waiting_ = gauge("vllm:num_requests_waiting", "Accepted requests that wait to be scheduled.");
  kv_usage_ = gauge("vllm:kv_cache_usage_perc", "Held share of the KV blocks, 0 to 1.");
  prefix_queries_ = counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.");
  prefix_hits_ = counter("vllm:prefix_cache_hits_total", "Prompt tokens that the prefix cache served.");
  preemptions_ = counter("vllm:num_preemptions_total", "Sequences sent back to the queue for want of KV blocks.");
  prompt_tokens_ = counter("vllm:prompt_tokens_total", "Prompt tokens of requests that reached their first token.");
  generation_tokens_ = counter("vllm:generation_tokens_total", "Generated tokens.");
  for (const FinishReason reason : kFinishReasons) {
    success_[static_cast<std::size_t>(reason)] =
        registry_.counter("vllm:request_success_total", "Ended requests, by reason.", with(base_labels_, "finished_reason", finish_reason_name(reason)));
  }
  iteration_tokens_ = histogram("vllm:iteration_tokens_total", "Tokens per engine step.", kIterationBounds);
  prompt_length_ = histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", lengths);
  generation_length_ = histogram("vllm:request_generation_tokens", "Generated tokens per request.", lengths);
  max_generation_length_ = histogram("vllm:request_max_num_generation_tokens", "Longest of the n samples of a prompt, in tokens.", lengths);
  params_max_tokens_ = histogram("vllm:request_params_max_tokens", "The max_tokens parameter.", lengths);
  params_n_ = histogram("vllm:request_params_n", "The n parameter.", kSampleCountBounds);
  ttft_ = histogram("vllm:time_to_first_token_seconds", "Submission to first token.", kFirstTokenBounds);
  inter_token_ = histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", kTokenGapBounds);
  time_per_output_token_ =
      histogram("vllm:request_time_per_output_token_seconds", "Mean time per token after the first, per request.", kTokenGapBounds);
  e2e_ = histogram("vllm:e2e_request_latency_seconds", "Submission to end.", kRequestBounds);
  queue_ = histogram("vllm:request_queue_time_seconds", "Submission to first scheduling.", kRequestBounds);
  inference_ = histogram("vllm:request_inference_time_seconds", "First scheduling to last token.", kRequestBounds);
  prefill_ = histogram("vllm:request_prefill_time_seconds", "First scheduling to first token.", kRequestBounds);
  decode_ = histogram("vllm:request_decode_time_seconds", "First to last token.", kRequestBounds);

  steps_ = counter("quire:steps_total", "Engine steps whose results arrived, failed ones included.");
  step_seconds_ = histogram("quire:step_duration_seconds", "Duration of an engine step.", kStepBounds);
  rejected_ = counter("quire:queue_rejected_total", "Requests refused because the queue was full.");
}

void Metrics::set_cache_config(const MetricLabels& settings) {
  MetricLabels labels = settings;
  labels.emplace_back("engine", base_labels_[0].second);
  registry_.gauge("vllm:cache_config_info", "Cache settings, as labels.", labels).set(1);
}

void Metrics::count_fallback(const std::string& from, const std::string& to, const std::string& why) {
  MetricLabels labels = with(with(with(base_labels_, "from", from), "to", to), "why", why);
  registry_.counter("quire:fallback_total", "Choices that were replaced by another.", labels).add();
}

void Metrics::observe_step(std::int32_t num_tokens, double seconds) {
  steps_.add();
  step_seconds_.observe(seconds);
  iteration_tokens_.observe(num_tokens);
}

void Metrics::observe_first_token(double seconds_since_submit, std::int32_t num_prompt_tokens) {
  ttft_.observe(seconds_since_submit);
  prompt_tokens_.add(num_prompt_tokens);
  generation_tokens_.add();
}

void Metrics::observe_next_token(double seconds_since_last) {
  inter_token_.observe(seconds_since_last);
  generation_tokens_.add();
}

void Metrics::observe_finish(const FinishedRequest& request) {
  success_[static_cast<std::size_t>(request.reason)].add();
  prompt_length_.observe(request.num_prompt_tokens);
  generation_length_.observe(request.num_output_tokens);
  params_max_tokens_.observe(request.max_tokens);
  e2e_.observe(request.e2e_seconds);
  queue_.observe(request.queue_seconds);
  if (request.inference_seconds) inference_.observe(*request.inference_seconds);
  if (request.prefill_seconds) prefill_.observe(*request.prefill_seconds);
  if (!request.decode_seconds) return;
  decode_.observe(*request.decode_seconds);
  time_per_output_token_.observe(request.num_output_tokens > 1 ? *request.decode_seconds / (request.num_output_tokens - 1) : 0.0);
}

void Metrics::observe_samples(std::int32_t n, std::int32_t max_output_tokens) {
  params_n_.observe(n);
  max_generation_length_.observe(max_output_tokens);
}

void Metrics::count_rejected() { rejected_.add(); }

void Metrics::observe_scheduler(const SchedulerStats& stats, std::int32_t num_running, std::int32_t num_waiting) {
  running_.set(num_running);
  waiting_.set(num_waiting);
  const std::int32_t held = stats.num_blocks_total - stats.num_blocks_free;
  kv_usage_.set(stats.num_blocks_total > 0 ? static_cast<double>(held) / stats.num_blocks_total : 0.0);
  preemptions_.add(static_cast<double>(stats.num_preemptions - last_.num_preemptions));
  prefix_queries_.add(static_cast<double>(stats.prefix_queries - last_.prefix_queries));
  prefix_hits_.add(static_cast<double>(stats.prefix_hits - last_.prefix_hits));
  last_ = stats;
}

}  // namespace quire::engine
