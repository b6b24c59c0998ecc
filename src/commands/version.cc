#include "commands/version.h"

namespace quire::commands {

const char* const kVersion = QUIRE_VERSION;

}  // namespace quire::commands
