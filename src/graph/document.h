// docs/GRAPH_MODES.md, made by asking the functions it describes. Must not hold a rule of its own.
#pragma once
#include <string>

namespace quire::graph {

[[nodiscard]] std::string graph_modes_markdown();

}  // namespace quire::graph
