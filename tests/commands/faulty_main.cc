// The program with a mistake switched on: `SWITCHED_ON_FAULT` names it, or is empty for none. What refusals_test.py drives; never installed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "commands/console.h"
#include "commands/doctor.h"
#include "commands/run.h"
#include "commands/serve.h"
#include "config/command_line.h"
#include "selfcheck/faults.h"

namespace {

using quire::commands::StartupSwitches;

// Of the flags that refusals_test.py passes.
constexpr quire::test::FaultShape kShape = {.state_rows = 16, .table_stride = 2048 / 16, .num_blocks = 150, .max_tokens = 64, .num_layers = 6};

// nullopt: no such fault.
std::optional<StartupSwitches> switches_of(const std::string& fault) {
  if (fault.empty()) return StartupSwitches{};
  if (fault == "full graphs forced open") return StartupSwitches{.forced_graph_mode = quire::graph::GraphMode::kFull};
  const auto is_asked = [&](quire::test::Fault f) { return fault == quire::test::fault_name(f); };
  for (const std::span<const quire::test::Fault> known : {std::span<const quire::test::Fault>(quire::test::kFaults), std::span<const quire::test::Fault>(quire::test::kScaleFaults)})
    if (const auto f = std::ranges::find_if(known, is_asked); f != known.end()) return StartupSwitches{.kernels = quire::test::faulty_kernels(*f, kShape)};
  return std::nullopt;
}

struct Dispatch {
  const StartupSwitches& switches;
  int operator()(const quire::config::ServeCommand& c) const { return quire::commands::serve(c, switches); }
  int operator()(const quire::config::DoctorCommand& c) const { return quire::commands::doctor(c, switches); }
  int operator()(const quire::config::RunCommand& c) const { return quire::commands::run(c, switches); }
  template <class Other>
  int operator()(const Other&) const {
    std::fprintf(stderr, "quire_faulty: serve, doctor and run only\n");
    return 3;
  }
};

}  // namespace

int main(int argc, char** argv) {
  quire::commands::prepare_standard_streams();
  const char* fault = std::getenv("SWITCHED_ON_FAULT");
  const auto switches = switches_of(fault == nullptr ? "" : fault);
  const auto command = quire::config::parse_command_line(argc, argv);
  if (!switches.has_value() || !command.ok()) {
    std::fprintf(stderr, "quire_faulty: %s\n", command.ok() ? "unknown SWITCHED_ON_FAULT" : command.error().to_string().c_str());
    return 3;
  }
  return std::visit(Dispatch{*switches}, command.value());
}
