// A resolved configuration for people and programs (--print-config). Pure functions; secrets never appear.
#pragma once
#include <boost/json/object.hpp>
#include <string>

#include "config/resolved.h"

namespace quire::config {

// One line per value, "section.name: value", in a fixed order.
[[nodiscard]] std::string config_text(const ResolvedConfig& config);
// The same values, nested by section, plus adjustments and non-default arguments.
[[nodiscard]] boost::json::object config_json(const ResolvedConfig& config);
[[nodiscard]] const char* load_format_name(LoadFormat format);

}  // namespace quire::config
