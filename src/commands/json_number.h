// Numbers of a report as JSON: what JSON cannot say (NaN, infinity) becomes null.
#pragma once
#include <boost/json/value.hpp>
#include <cmath>

namespace quire::commands {

[[nodiscard]] inline boost::json::value json_number(double x) {
  if (!std::isfinite(x)) return nullptr;
  return x;
}

}  // namespace quire::commands
