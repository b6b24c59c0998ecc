// Where the time of steps goes: what the runner does, the kernels within it, and the engine around it. Pure arithmetic on readings of clocks.
#pragma once
#include <boost/json/object.hpp>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "commands/bench_plot.h"
#include "commands/startup.h"
#include "device/cpu/launch_times.h"

namespace quire::commands {

struct StepReading {
  std::int64_t steps = 0;
  double submit_seconds = 0.0, collect_seconds = 0.0;
  std::array<device::LaunchTimes::Sample, device::kNumKernels> kernels{};
};
[[nodiscard]] StepReading read_steps(const StepClock& clock, const device::LaunchTimes& times);

// Between two readings. The parts add up to the wall time.
struct StepBreakdown {
  struct Part {
    std::string name;
    double seconds = 0.0;
  };
  struct Kernel {
    std::string name;
    double seconds = 0.0;
    std::int64_t launches = 0;
  };
  std::int64_t steps = 0;
  double wall_seconds = 0.0;   // while there was work
  std::vector<Part> parts;     // schedule and deliver, prepare and launch, attention, linear layers, other kernels, sample, collect
  std::vector<Kernel> kernels; // that were launched, longest first
};
[[nodiscard]] StepBreakdown breakdown(const StepReading& from, const StepReading& to, double wall_seconds);

[[nodiscard]] std::string breakdown_text(const StepBreakdown& b);
[[nodiscard]] boost::json::object breakdown_json(const StepBreakdown& b);
[[nodiscard]] ChartPanel breakdown_panel(const StepBreakdown& b);  // one series

}  // namespace quire::commands
