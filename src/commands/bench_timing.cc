#include "commands/bench_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <string>

#include "base/check.h"

namespace quire::commands {
namespace {

constexpr std::size_t kMaxRepeats = 100'000;

}  // namespace

double quantile(std::vector<double> values, double share) {
  QUIRE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double Timing::median() const { return quantile(seconds, 0.5); }
double Timing::min() const { return quantile(seconds, 0.0); }
double Timing::spread() const { return median() > 0.0 ? (quantile(seconds, 0.9) - quantile(seconds, 0.1)) / median() : 0.0; }

Timing time_repeats(const TimingRules& rules, const std::function<void(std::size_t)>& run) {
  using Clock = std::chrono::steady_clock;
  Timing timing;
  double total = 0.0, longest = 0.0;
  do {
    const auto from = Clock::now();
    run(timing.seconds.size());
    const double took = std::chrono::duration<double>(Clock::now() - from).count();
    timing.seconds.push_back(took);
    total += took;
    longest = std::max(longest, took);
  } while (timing.seconds.size() < kMaxRepeats && total + longest <= rules.limit_seconds && (total < rules.min_seconds || timing.seconds.size() < kMinRepeats));
  return timing;
}

boost::json::object timing_json(const Timing& t) {
  return {{"median_us", t.median() * 1e6}, {"min_us", t.min() * 1e6}, {"spread", t.spread()}, {"repeats", t.seconds.size()}};
}

std::string duration_text(double seconds) {
  static constexpr struct {
    double scale;
    const char* unit;
  } kUnits[] = {{1.0, "s"}, {1e3, "ms"}, {1e6, "us"}};
  const auto* unit = std::begin(kUnits);
  while (seconds * unit->scale < 1.0 && std::next(unit) != std::end(kUnits)) ++unit;
  const double value = seconds * unit->scale;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", value < 10.0 ? 2 : value < 100.0 ? 1 : 0, value, unit->unit);
  return text;
}

}  // namespace quire::commands
