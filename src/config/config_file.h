// `--config file.yaml`: flags as `key: value`, in YAML's plain subset (scalars, lists, maps for JSON flags; no anchors, tags or
// several documents). Knows YAML and flag names, nothing else. libyaml's event interface: no recursion, bounded depth.
#pragma once
#include <string>

#include "config/options.h"
#include "config/problems.h"

namespace quire::config {

// Adds the file's flags to `options`; flags given on the command line win. Keys are flag names without dashes, underscores
// allowed; "model" names the model unless one was given. Unknown keys and bad values become problems with file and line.
void read_config_file(const std::string& path, Audience command, Options& options, Problems& problems);

}  // namespace quire::config
