// --compilation-config and -O (vLLM's keys, with fates) and the graph flags beside them. Turns them into a plain request; which graph mode
// then runs is decided by the backend's row, not here.
#pragma once
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.h"
#include "config/problems.h"
#include "config/resolved.h"

namespace quire::config {

// Options::assign, and for --compilation-config also a bare level: "3" becomes {"level": 3}.
void assign_flag(Options& options, const FlagUse& use, std::vector<std::string> values, Problems& problems);

// A scalar of a dotted key or a YAML map: number, true, false and null become JSON's, everything else a string.
[[nodiscard]] boost::json::value json_scalar(std::string_view text);

// What --compilation-config, -O, --optimization-level, --enforce-eager and the capture-size flags ask for together. Unknown keys,
// wrong types and contradictions are problems; keys without effect are notes.
[[nodiscard]] GraphRequest graph_request(const Options& options, std::vector<Adjustment>& notes, Problems& problems);

// Keys of --compilation-config, for documents: name, what it does or why it does nothing.
struct CompilationKey {
  std::string_view name;
  Fate fate = Fate::kNoEffect;
  std::string_view text;
};
[[nodiscard]] std::span<const CompilationKey> compilation_keys();

}  // namespace quire::config
