// The KV gate's result as a table and as JSON, for `quire doctor` and `quire eval`.
#pragma once
#include <boost/json/object.hpp>
#include <string>

#include "selfcheck/kv_gate.h"

namespace quire::commands {

// One line for each layer, then limits and verdict; empty when the cache is not FP8.
[[nodiscard]] std::string kv_gate_text(const selfcheck::KvGate& gate);
// A number that is not finite becomes null.
[[nodiscard]] boost::json::object kv_gate_json(const selfcheck::KvGate& gate);

}  // namespace quire::commands
