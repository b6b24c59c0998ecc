// Every field of config.json that this build has an opinion on, in one table; a family's own rows come first. Internal to model/.
#pragma once
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/json_fields.h"

namespace quire::model {

enum class Fate : std::uint8_t {
  kConsumed,   // read by spec_parse.cc and what it calls
  kIgnorable,  // changes nothing in a forward pass of a causal language model
  kNeutral,    // would change numerics: only null and the listed values, under which it does nothing, are accepted
  kLength,     // another name of the longest context: accepted when it does not shorten max_position_embeddings
};

struct ConfigField {
  std::string_view name;
  Fate fate = Fate::kIgnorable;
  std::string_view neutral = {};  // a JSON list of values; null is always neutral
};

constexpr ConfigField consumed_field(std::string_view name) { return {name, Fate::kConsumed, {}}; }
constexpr ConfigField neutral_field(std::string_view name, std::string_view values = "[]") { return {name, Fate::kNeutral, values}; }

// Adds a finding for each field of `config` that may not be passed over: a field on no list, or one whose value asks for
// arithmetic that is not implemented. `of_family` goes before the table; consumed fields are read by spec_parse.cc.
void check_config_fields(const boost::json::object& config, std::span<const ConfigField> of_family, Findings& findings);

}  // namespace quire::model
