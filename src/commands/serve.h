// quire serve: bind, load, serve until a signal, drain, stop.
#pragma once
#include "commands/startup_switches.h"
#include "config/command_line.h"

namespace quire::commands {

// The process's exit code.
[[nodiscard]] int serve(const config::ServeCommand& command, const StartupSwitches& switches = {});

}  // namespace quire::commands
