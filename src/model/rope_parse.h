// Rotary parameters from config.json, in the older form (rope_theta + rope_scaling) or the newer (rope_parameters). Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>
#include <optional>

#include "model/json_fields.h"
#include "model/spec.h"

namespace quire::model {

// Of a family, where the file says nothing. `local_theta` above 0: layers with a window have a rope of their own (rope_local_base_freq,
// without a scaling; newer files: rope_parameters.full_attention and .sliding_attention).
struct RopeDefaults {
  double theta = 10000.0, local_theta = 0.0;
};
// The checked values of the same config; nullopt and 0 where they are wrong: then what depends on them is not looked at.
struct RopeSizes {
  std::optional<std::int64_t> max_position_embeddings;
  std::int32_t head_dim = 0;
};
struct RopePair {
  RopeSpec all;
  std::optional<RopeSpec> local;
};

// Both forms may be present when they say the same. Anything wrong or not implemented becomes a finding, and the returned value
// then means nothing.
[[nodiscard]] RopePair parse_rope(const boost::json::object& config, const RopeDefaults& defaults, const RopeSizes& sizes, Findings& findings);

}  // namespace quire::model
