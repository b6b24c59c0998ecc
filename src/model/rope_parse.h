// Rotary parameters from config.json, in the older form (rope_theta + rope_scaling) or the newer (rope_parameters). Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>

#include "model/json_fields.h"
#include "model/spec.h"

namespace quire::model {

// Both forms may be present when they say the same. Anything wrong or not implemented becomes a finding, and the returned value
// then means nothing. `max_position_embeddings` and `head_dim` are the checked values of the same config; nullopt and 0 where they are
// wrong: then what depends on them is not looked at.
[[nodiscard]] RopeSpec parse_rope(const boost::json::object& config, std::optional<std::int64_t> max_position_embeddings, std::int32_t head_dim, Findings& findings);

}  // namespace quire::model
