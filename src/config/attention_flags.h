// --attention-backend, --attention-config and VLLM_ATTENTION_BACKEND: which row of the attention table was asked for. Names come from that
// table alone; whether the row serves the model is decided by selection, not here.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "config/problems.h"

namespace quire::config {

// The name of --attention-backend, or "backend" of --attention-config, as written; nullopt: neither is given.
struct NamedBackend {
  std::string spelling, name;
};
[[nodiscard]] std::optional<NamedBackend> attention_name(const Options& options, std::vector<Adjustment>& notes, Problems& problems);

// The row of that name, else of VLLM_ATTENTION_BACKEND, in any case; "": none or auto. Names of backends that this device lacks are
// refused by name, unknown names with the nearest one.
[[nodiscard]] std::string attention_choice(const Options& options, const Environment& environment, std::vector<Adjustment>& notes, Problems& problems);

}  // namespace quire::config
