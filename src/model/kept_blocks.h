// Which quantised matrices of a GGUF file stay in their blocks in memory, and which become 16 bit, with the reason. Shapes and types alone:
// knows no device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/types.h"
#include "model/spec.h"

namespace quire::model {

struct FusedLinear;
enum class GgufWeights : std::uint8_t { kBlocks, kDequantised };  // --gguf-weights

// The types of a projection's parts, if all of them stay in blocks; else empty. Blocks and other numbers are not multiplied together, and FP8
// matrices that are made while loading (spec.quant) leave no block in the model.
[[nodiscard]] std::vector<gguf::TensorType> kept_types(const ModelSpec& spec, GgufWeights weights, std::int32_t layer, const FusedLinear& fused);
// The same of a matrix by itself: "model.embed_tokens.weight", "lm_head.weight".
[[nodiscard]] std::optional<gguf::TensorType> kept_type(const ModelSpec& spec, GgufWeights weights, std::string_view parameter);

struct KeptBlocks {
  std::string kept;                      // by type, "210 Q4_1, 1 Q8_0"; "": none
  std::vector<std::string> dequantised;  // quantised matrices that are not, each with its reason
};
[[nodiscard]] KeptBlocks kept_blocks(const ModelSpec& spec, GgufWeights weights);

}  // namespace quire::model
