// quire plan: the memory that `quire serve` would take with the same flags. Reads config.json, tokenizer_config.json and the headers of
// the weights; loads nothing.
#pragma once
#include "config/command_line.h"

namespace quire::commands {

// The process's exit code: 0 whenever there is a plan, also when it does not fit.
[[nodiscard]] int plan(const config::PlanCommand& command);

}  // namespace quire::commands
