// The program's version: PROJECT_VERSION of CMakeLists.txt.
#pragma once

namespace quire::commands {

extern const char* const kVersion;

}  // namespace quire::commands
