// quire bench serve: loads a server of the OpenAI API and measures it from outside. Runs no model.
#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "commands/bench_plot.h"
#include "commands/serve_driver.h"
#include "commands/serve_load.h"
#include "commands/serve_metrics.h"
#include "config/command_line.h"
#include "http/target.h"

namespace quire::commands {

// What was asked for, checked.
struct BenchServeRequest {
  http::Target target;
  ServeQuestion question;  // without a model: the server's first
  LoadRequest load;
  std::vector<DatasetPrompt> dataset;  // empty: random words
  std::vector<double> percentiles;     // ascending, without repeats
};
[[nodiscard]] Result<BenchServeRequest> bench_serve_request(const config::Options& options);

// "50,90,99" of the flag --percentiles: numbers from 0 to 100. Errors name the flag.
[[nodiscard]] Result<std::vector<double>> read_percentiles(const std::string& text);
// "99" of 99.0, "99.9" of 99.9.
[[nodiscard]] std::string percentile_name(double percentile);

[[nodiscard]] std::string bench_serve_text(const BenchServeRequest& request, const ServeSummary& summary);
// In the names of `vllm bench serve`'s result files, with what they lack: failures by reason, how tokens were counted.
[[nodiscard]] boost::json::object bench_serve_json(const BenchServeRequest& request, const ServeSummary& summary);
[[nodiscard]] BarChart bench_serve_chart(const BenchServeRequest& request, const ServeSummary& summary);

// The process's exit code: 0; 1 when a request failed or the bench could not run; 2 for a wrong command line.
[[nodiscard]] int bench_serve(const config::BenchServeCommand& command);

}  // namespace quire::commands
