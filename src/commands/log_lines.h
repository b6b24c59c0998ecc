// A text of several lines as lines of the log.
#pragma once
#include <string>

namespace quire::commands {

// Those that begin with "warning" become warnings.
void log_lines(const std::string& text);

}  // namespace quire::commands
