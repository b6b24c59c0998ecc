// What the times of requests say: latencies, throughput, failures. Pure arithmetic in vLLM's terms:
//   TTFT  sending to the first piece of text          ITL   one piece of text to the next (a piece may hold several tokens)
//   E2EL  sending to the last piece                   TPOT  (E2EL - TTFT) / (output tokens - 1), of requests with at least two tokens
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quire::commands {

// One request. Seconds on one clock, 0 at the benchmark's start.
struct RequestRecord {
  double due = 0.0, sent = 0.0, ended = 0.0;  // due: when the schedule wanted it sent; a full house (--max-concurrency) delays it
  std::vector<double> pieces;                 // when each piece of text came, ascending
  std::string failure;                        // why it failed; "": it did not
  std::optional<std::int64_t> input_tokens, output_tokens;  // as the server counted them
};

struct Distribution {
  std::size_t count = 0;
  double mean = 0.0, deviation = 0.0, median = 0.0;  // 0 when the count is; deviation of the population
  std::vector<std::pair<double, double>> percentiles;  // as asked for: (99, value)
};
// Percentiles lie between the two nearest ranks.
[[nodiscard]] Distribution distribution(const std::vector<double>& values, const std::vector<double>& percentiles);

struct ServeSummary {
  double duration_seconds = 0.0;  // first request sent to last one ended
  std::int64_t completed = 0, failed = 0;
  std::map<std::string, std::int64_t> failures;        // by reason
  std::int64_t input_tokens = 0, output_tokens = 0;    // of completed requests
  std::int64_t uncounted_inputs = 0;                   // completed requests whose server told no input tokens: missing above
  std::int64_t outputs_by_pieces = 0;                  // ... no output tokens: their pieces were counted instead
  std::int64_t without_text = 0;                       // completed requests that sent no text: in no latency
  std::int64_t num_pieces = 0;
  std::int64_t peak_concurrency = 0;                   // requests sent and not ended at one time
  Distribution ttft, tpot, itl, e2el, send_delay;      // seconds

  [[nodiscard]] double requests_per_second() const;
  [[nodiscard]] double output_tokens_per_second() const;
  [[nodiscard]] double tokens_per_second() const;  // input and output
};
[[nodiscard]] ServeSummary summarise(const std::vector<RequestRecord>& records, const std::vector<double>& percentiles);

// The largest number of intervals [from, to) that hold one time. An interval that begins when another ends does not overlap it.
[[nodiscard]] std::int64_t peak_overlap(const std::vector<std::pair<double, double>>& intervals);

}  // namespace quire::commands
