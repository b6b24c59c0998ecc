// The scale ledger for programs: GET /quire/scales and `quire explain --scales --json`. Apart from kv_scales.h, whose readers know no JSON.
#pragma once
#include <boost/json/object.hpp>

#include "model/kv_scales.h"

namespace quire::model {

// {"kv_cache_dtype", "source", "summary", "declared_by", "num_layers", "num_kv_heads", "warnings": [...], "scales": [one object for each entry]}.
// A number for a scale of the whole layer, a list for one of each head, null for none.
[[nodiscard]] boost::json::object scale_ledger_json(const ScaleLedger& ledger);

}  // namespace quire::model
