// What only tests replace when a model is loaded. The program itself always passes the defaults.
#pragma once
#include <optional>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "graph/mode.h"

namespace quire::commands {

struct StartupSwitches {
  std::vector<device::CpuKernel> kernels = {};  // kernels that are wrong; empty: the program's
  std::optional<graph::GraphMode> forced_graph_mode = {};  // a mode that resolution would not let through
};

}  // namespace quire::commands
