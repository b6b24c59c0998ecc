// Linear layers that are one matrix here, one below the other. Internal to model/.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "model/quantization.h"

namespace quire::model {

struct FusedLinear {
  LinearKind first;
  int num_parts;
};
inline constexpr FusedLinear kQkv{LinearKind::kQ, 3}, kO{LinearKind::kO, 1}, kGateUp{LinearKind::kGate, 2}, kDown{LinearKind::kDown, 1};
inline constexpr std::array kFusedLinears = {kQkv, kO, kGateUp, kDown};

// "model.layers.3.self_attn.k_proj": the linear layer that is part `part`.
[[nodiscard]] inline std::string part_name(std::int32_t layer, const FusedLinear& fused, int part) {
  return "model.layers." + std::to_string(layer) + "." + std::string(kLinearNames[static_cast<std::size_t>(fused.first) + static_cast<std::size_t>(part)]);
}

}  // namespace quire::model
