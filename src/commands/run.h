// quire run: one prompt to standard output, without a server.
#pragma once
#include "commands/startup_switches.h"
#include "config/command_line.h"

namespace quire::commands {

// The process's exit code. With --json, standard output holds one JSON document when the answer is complete.
[[nodiscard]] int run(const config::RunCommand& command, const StartupSwitches& switches = {});

}  // namespace quire::commands
