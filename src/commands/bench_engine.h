// quire bench latency and quire bench throughput: the engine measured in this process, with the model loaded as `quire serve` would.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "commands/bench_plot.h"
#include "commands/serve_load.h"
#include "commands/serve_metrics.h"
#include "commands/step_breakdown.h"
#include "config/command_line.h"

namespace quire::commands {

// What one run asks of the engine: prompts of random tokens, answers of exact lengths.
struct EngineWork {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::int32_t> output_lens;
  [[nodiscard]] std::int64_t input_tokens() const;
  [[nodiscard]] std::int64_t output_tokens() const;
};
// `num` prompts with lengths and prefix as the request says (serve_load.h); ids below `vocab_size`.
[[nodiscard]] EngineWork random_work(const LoadRequest& request, std::int64_t num, std::int32_t vocab_size, LoadRandom& random);
// Errors name the flag: the longest prompt and answer do not fit the context.
[[nodiscard]] Status check_lengths(const LoadRequest& request, std::int64_t max_model_len);

struct LatencyReport {
  std::string model;
  std::int64_t batch_size = 0, input_len = 0, output_len = 0;
  std::vector<double> seconds;  // of each batch
  Distribution latency;
  StepBreakdown steps;
};
struct ThroughputReport {
  std::string model;
  std::int64_t num_requests = 0, input_tokens = 0, output_tokens = 0;
  double seconds = 0.0;
  StepBreakdown steps;
};

// Texts, documents (in the names of vLLM's result files) and charts of both.
[[nodiscard]] std::string report_text(const LatencyReport& r);
[[nodiscard]] std::string report_text(const ThroughputReport& r);
[[nodiscard]] boost::json::object report_json(const LatencyReport& r);
[[nodiscard]] boost::json::object report_json(const ThroughputReport& r);
[[nodiscard]] BarChart report_chart(const LatencyReport& r);
[[nodiscard]] BarChart report_chart(const ThroughputReport& r);

// The process's exit code.
[[nodiscard]] int bench_latency(const config::BenchLatencyCommand& command);
[[nodiscard]] int bench_throughput(const config::BenchThroughputCommand& command);

}  // namespace quire::commands
