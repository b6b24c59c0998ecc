// What a checkpoint's config declares about its KV cache, before any tensor is looked at. Knows no quantisation method: the readers of
// their configs fill a KvScheme in, whatever they call it. Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>
#include <optional>
#include <string>

#include "model/quantization.h"

namespace quire::model {

class Findings;

// The value of `kv_cache_scheme`: null, the string "static", or an object of num_bits 8, type "float", strategy "tensor" or "attn_head",
// dynamic false, symmetric true. `field` is its path in the file, for messages. Anything else is a finding.
[[nodiscard]] std::optional<KvScheme> parse_kv_cache_scheme(const boost::json::value& value, const std::string& field, Findings& findings);

}  // namespace quire::model
