// Repeats of one piece of work and what they say: shared by all benches.
#pragma once
#include <boost/json/object.hpp>
#include <functional>
#include <vector>

namespace quire::commands {

// The value below which `share` (0 to 1) of `values` lies, between the two nearest ranks. At least one value.
[[nodiscard]] double quantile(std::vector<double> values, double share);

struct TimingRules {
  double min_seconds = 0.5;     // repeats go on until they took so long together and there are kMinRepeats
  double limit_seconds = 60.0;  // ... or, with fewer, until the next one would pass this
};
inline constexpr std::size_t kMinRepeats = 5;

struct Timing {
  std::vector<double> seconds;  // of each repeat, in order

  [[nodiscard]] double median() const;
  [[nodiscard]] double min() const;
  // (90th - 10th percentile) / median; 0 for a single repeat.
  [[nodiscard]] double spread() const;
};

// Calls run(0), run(1), ... and times each call; at least once.
[[nodiscard]] Timing time_repeats(const TimingRules& rules, const std::function<void(std::size_t)>& run);

// Microseconds, and how many repeats.
[[nodiscard]] boost::json::object timing_json(const Timing& timing);
// "1.23 ms", three digits in the unit that fits.
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace quire::commands
