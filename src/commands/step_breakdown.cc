#include "commands/step_breakdown.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <string_view>

#include "base/text.h"
#include "commands/bench_timing.h"

namespace quire::commands {
namespace {

namespace json = boost::json;

enum class KernelClass : std::uint8_t { kAttention, kLinear, kOther, kSample };

KernelClass class_of(std::string_view kernel) {
  if (kernel.starts_with("attention")) return KernelClass::kAttention;
  if (kernel.starts_with("linear")) return KernelClass::kLinear;
  return kernel == "sample" ? KernelClass::kSample : KernelClass::kOther;
}

std::string percent(double value) { return formatted("%.1f %%", value); }

std::string row(const std::string& name, double seconds, const StepBreakdown& b) {
  const double share = b.wall_seconds > 0.0 ? 100.0 * seconds / b.wall_seconds : 0.0, each = b.steps > 0 ? seconds / static_cast<double>(b.steps) : 0.0;
  return "    " + left_aligned(name, 28) + right_aligned(percent(share), 8) + right_aligned(duration_text(each), 12);
}

}  // namespace

StepReading read_steps(const StepClock& clock, const device::LaunchTimes& times) {
  StepReading out{.steps = clock.steps, .submit_seconds = static_cast<double>(clock.submit_nanoseconds) * 1e-9, .collect_seconds = static_cast<double>(clock.collect_nanoseconds) * 1e-9, .kernels = {}};
  for (std::size_t k = 0; k < device::kNumKernels; ++k) out.kernels[k] = times.of(static_cast<device::KernelId>(k));
  return out;
}

StepBreakdown breakdown(const StepReading& from, const StepReading& to, double wall_seconds) {
  StepBreakdown out;
  out.steps = to.steps - from.steps;
  out.wall_seconds = wall_seconds;
  const double submit = to.submit_seconds - from.submit_seconds, collect = to.collect_seconds - from.collect_seconds;
  std::array<double, 4> by_class{};
  double in_kernels = 0.0;
  for (std::size_t k = 0; k < device::kNumKernels; ++k) {
    const std::string name = device::kernel_name(static_cast<device::KernelId>(k));
    const double seconds = static_cast<double>(to.kernels[k].nanoseconds - from.kernels[k].nanoseconds) * 1e-9;
    const std::int64_t launches = to.kernels[k].launches - from.kernels[k].launches;
    if (launches > 0) out.kernels.push_back({name, seconds, launches});
    by_class[static_cast<std::size_t>(class_of(name))] += seconds;
    in_kernels += seconds;
  }
  std::stable_sort(out.kernels.begin(), out.kernels.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  const auto of = [&](KernelClass c) { return by_class[static_cast<std::size_t>(c)]; };
  out.parts = {{"schedule and deliver", wall_seconds - submit - collect},
               {"prepare and launch", submit - in_kernels},  // a CPU's kernels run while they are submitted
               {"attention", of(KernelClass::kAttention)},
               {"linear layers", of(KernelClass::kLinear)},
               {"other kernels", of(KernelClass::kOther)},
               {"sample", of(KernelClass::kSample)},
               {"collect", collect}};
  return out;
}

std::string breakdown_text(const StepBreakdown& b) {
  std::string out = "  a step, of " + std::to_string(b.steps) + " (" + duration_text(b.steps > 0 ? b.wall_seconds / static_cast<double>(b.steps) : 0.0) + " each):\n";
  for (const StepBreakdown::Part& p : b.parts) out += row(p.name, p.seconds, b) + "\n";
  out += "  kernels:\n";
  for (const StepBreakdown::Kernel& k : b.kernels) out += row(k.name, k.seconds, b) + "   " + std::to_string(k.launches) + " launches\n";
  return out;
}

json::object breakdown_json(const StepBreakdown& b) {
  json::object parts, kernels;
  for (const StepBreakdown::Part& p : b.parts) parts[p.name] = p.seconds;
  for (const StepBreakdown::Kernel& k : b.kernels) kernels[k.name] = json::object{{"seconds", k.seconds}, {"launches", k.launches}};
  return {{"steps", b.steps}, {"wall_seconds", b.wall_seconds}, {"parts_seconds", std::move(parts)}, {"kernels", std::move(kernels)}};
}

ChartPanel breakdown_panel(const StepBreakdown& b) {
  ChartPanel panel{.axis = "where a step's time goes, %", .groups = {}, .reference = 0.0, .reference_label = {}};
  for (const StepBreakdown::Part& p : b.parts) {
    const double share = b.wall_seconds > 0.0 ? std::max(0.0, 100.0 * p.seconds / b.wall_seconds) : 0.0;
    panel.groups.push_back({p.name, {ChartBar{share, percent(share)}}});
  }
  return panel;
}

}  // namespace quire::commands
