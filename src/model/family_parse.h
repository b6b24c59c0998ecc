// What a family's row and a config.json together make of a model. Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>

#include "model/families.h"
#include "model/json_fields.h"

namespace quire::model {

// Fills in what families differ in: biases, norms, activation, windows, soft caps, scales, tying; `spec` holds its sizes already (0 where
// one is wrong: then what depends on it is not looked at). Not rope: rope_parse.h.
void parse_family(const Family& family, const boost::json::object& config, ModelSpec& spec, Findings& findings);

}  // namespace quire::model
