// quantization_config of any method to a QuantSpec. Internal to model/ and its tests.
#pragma once
#include <boost/json/fwd.hpp>
#include <cstdint>

#include "model/json_fields.h"
#include "model/quantization.h"

namespace quire::model {

// `config`: of config.json. `hf_quant`: of hf_quant_config.json; nullptr: no such file. Everything that is not implemented is a finding.
[[nodiscard]] QuantSpec parse_quantization(const boost::json::object& config, const boost::json::object* hf_quant, std::int32_t num_layers, Findings& findings);

}  // namespace quire::model
