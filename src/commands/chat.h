// quire chat: a conversation in the terminal, or through a pipe, with a model that is loaded here or with a server.
#pragma once
#include "config/command_line.h"

namespace quire::commands {

// The process's exit code: 0; 1 when nothing could be asked, standard input could not be read, or, without a
// terminal, a turn failed (with --json the document of what was said comes all the same); 2 for a wrong command line.
[[nodiscard]] int chat(const config::ChatCommand& command);

}  // namespace quire::commands
