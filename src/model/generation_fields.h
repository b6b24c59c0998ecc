// The fields of generation_config.json that count, as that file and --override-generation-config write them: one reader and one set of
// rules for both. Ranges are those of a request (base/sampling_ranges.h).
#pragma once
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace quire::model {

[[nodiscard]] std::span<const std::string_view> generation_field_names();

struct GenerationFields {
  GenerationDefaults defaults;
  std::vector<std::string> wrong;  // one text for each value that cannot be used; it begins with the field
};
// `before` with what `fields` holds; null takes a value back. Other fields are passed over. Token ids are below `vocab_size`.
[[nodiscard]] GenerationFields read_generation_fields(const boost::json::object& fields, std::int64_t vocab_size, GenerationDefaults before = {});

}  // namespace quire::model
