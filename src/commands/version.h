// The program's version, in one generated place.
#pragma once

namespace quire::commands {

extern const char* const kVersion;

}  // namespace quire::commands
