// End-of-sequence ids as both JSON files of a checkpoint write them. Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "base/ids.h"
#include "model/json_fields.h"

namespace quire::model {

// A number or a list of numbers in [0, limit); absent or null: empty. Repeated ids are kept once, in order.
[[nodiscard]] std::vector<TokenId> parse_token_ids(const boost::json::object& fields, const std::string& field, std::int64_t limit,
                                                   Findings& findings);

}  // namespace quire::model
