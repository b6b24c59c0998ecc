// quire bench attention: times one layer of attention on this machine's kernels, shape by shape and backend by backend, each after a check
// against the reference. Runs no model.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/capability.h"
#include "base/result.h"
#include "commands/bench_case.h"
#include "commands/bench_machine.h"
#include "commands/bench_plot.h"
#include "commands/bench_shapes.h"
#include "commands/bench_timing.h"
#include "config/command_line.h"
#include "config/environment.h"
#include "selfcheck/selfcheck.h"

namespace quire::commands {

// What was asked for, checked.
struct BenchAttentionRequest {
  std::vector<AttentionShape> shapes;
  std::vector<const attention::BackendCaps*> backends;  // of this device
  DType model_dtype = DType::kBF16, kv_dtype = DType::kBF16;
  std::int32_t block_size = 16;
  TimingRules timing;
};
[[nodiscard]] Result<BenchAttentionRequest> bench_attention_request(const config::Options& options, const config::Environment& environment);

// One shape on one backend. Exactly one of these holds: it was skipped, it was wrong, it was timed.
struct AttentionResult {
  AttentionShape shape;
  std::string backend;
  std::string skipped;                        // why; "": it ran
  std::optional<selfcheck::Verdict> verdict;  // of the sampled rows
  std::optional<Timing> timing;
  CaseSizes sizes;
  std::vector<std::string> kernels;
  std::int64_t launched_units = 0;
};

struct BenchAttentionReport {
  BenchMachine machine;
  BenchAttentionRequest request;
  std::vector<AttentionResult> results;
  [[nodiscard]] bool all_right() const;  // nothing that ran was wrong
};

// Progress goes to the log.
[[nodiscard]] BenchAttentionReport run_bench_attention(BenchDevice& device, const BenchAttentionRequest& request);

// Rates of a timed result, by its median.
struct AttentionRates {
  double gb_per_s = 0.0, read_share = 0.0;       // of compulsory bytes; against the machine's plain reads
  double gflop_per_s = 0.0, fma_share = 0.0;
};
[[nodiscard]] AttentionRates attention_rates(const AttentionResult& result, const BenchAttentionReport& report);

[[nodiscard]] std::string bench_attention_text(const BenchAttentionReport& report);
[[nodiscard]] boost::json::object bench_attention_json(const BenchAttentionReport& report);
[[nodiscard]] BarChart bench_attention_chart(const BenchAttentionReport& report);

// The process's exit code: 0; 1 when a result was wrong or the bench could not run; 2 for a wrong command line.
[[nodiscard]] int bench_attention(const config::BenchAttentionCommand& command);

}  // namespace quire::commands
