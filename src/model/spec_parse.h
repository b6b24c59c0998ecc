// The text of a config.json to a ModelSpec. Internal to model/ and its fuzzers; others call read_model_spec.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/spec.h"

namespace quire::model {

inline constexpr char kHfQuantFile[] = "hf_quant_config.json";  // ModelOpt's
inline constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

// Every rule of read_model_spec; `what` (a file name) starts every error. `hf_quant`: the text of hf_quant_config.json, if there is one.
[[nodiscard]] Result<ModelSpec> parse_model_spec(std::string_view text, const std::string& what, std::optional<std::string_view> hf_quant = std::nullopt);

}  // namespace quire::model
