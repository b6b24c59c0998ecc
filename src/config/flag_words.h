// What --help and docs/FLAGS.md both say of a row of the flag table. For help.cc and flag_docs.cc alone.
#pragma once
#include <string>

#include "config/flag_table.h"

namespace quire::config {

// "--[no-]x", or "--x, -y N": every spelling, then what kind of value follows.
[[nodiscard]] std::string spellings(const FlagRow& row);
// "auto, float32": the values that can be used now.
[[nodiscard]] std::string usable_values(const FlagRow& row);
[[nodiscard]] bool has_range(const FlagRow& row);

}  // namespace quire::config
