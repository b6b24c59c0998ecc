// Texts made from the flag and environment tables: --help, docs/FLAGS.md, docs/ENV.md. Pure functions.
#pragma once
#include <string>

#include "base/result.h"
#include "config/flag_table.h"

namespace quire::config {

[[nodiscard]] std::string program_help();
// Grouped, at most 100 columns wide: values and defaults of honoured flags, then the names of the others.
[[nodiscard]] std::string command_help(Audience command);
[[nodiscard]] std::string flags_markdown();
[[nodiscard]] std::string env_markdown();
// Writes FLAGS.md, ENV.md, GRAPH_MODES.md, LINEAR.md, QUANTIZATION.md, FAMILIES.md and CAPABILITIES.md into `folder`, which must exist.
[[nodiscard]] Status write_docs(const std::string& folder);

}  // namespace quire::config
