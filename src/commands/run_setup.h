// What a resolved configuration makes of attention, KV layout, graphs and runner: pure values, the same for a plan and for a run.
// Must not know memory, files or the server.
#pragma once
#include <optional>
#include <string>

#include "attention/select.h"
#include "base/result.h"
#include "config/resolved.h"
#include "graph/settings.h"
#include "kv/store/kv_layout.h"
#include "model/weights.h"
#include "runner/runner.h"

namespace quire::commands {

struct RunSetup {
  attention::Selection selection;  // one row for every phase
  kv::KvLayout layout;
  graph::GraphSettings graphs;
  model::WeightsOptions weights;
  runner::RunnerConfig runner;
};

// `forced_mode` (tests alone give one): runs whatever the backend supports, as if resolution had let it through.
// Errors: no backend serves the model, or graphs that cannot be had; they name the flag.
[[nodiscard]] Result<RunSetup> set_up_run(const config::ResolvedConfig& config, const std::string& device_family, std::optional<graph::GraphMode> forced_mode = std::nullopt);

}  // namespace quire::commands
