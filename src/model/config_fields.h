// Every field of config.json that this build has an opinion on, in one table. Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>

#include "model/json_fields.h"

namespace quire::model {

// Adds a finding for each field of `config` that may not be passed over: a field on no list, or one whose value asks for
// arithmetic that is not implemented. Consumed fields are read by spec_parse.cc.
void check_config_fields(const boost::json::object& config, Findings& findings);

}  // namespace quire::model
