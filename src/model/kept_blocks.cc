#include "model/kept_blocks.h"

#include <algorithm>
#include <map>

#include "model/fused_linears.h"

namespace quire::model {
namespace {

std::optional<gguf::TensorType> type_in_file(const ModelSpec& spec, std::string_view parameter) {
  if (!spec.gguf) return std::nullopt;
  const auto found = spec.gguf->blocks.find(parameter);
  return found == spec.gguf->blocks.end() ? std::nullopt : std::optional(found->second);
}

bool nothing_stays(const ModelSpec& spec, GgufWeights weights) { return weights == GgufWeights::kDequantised || spec.quant.any_fp8_weight(); }

class Counter {
 public:
  void kept(gguf::TensorType type) { ++counts_[type]; }
  [[nodiscard]] std::string text() const {
    std::vector<std::pair<gguf::TensorType, int>> sorted(counts_.begin(), counts_.end());
    std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string out;
    for (const auto& [type, count] : sorted) out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(gguf::facts_of(type).name);
    return out;
  }

 private:
  std::map<gguf::TensorType, int> counts_;
};

}  // namespace

std::vector<gguf::TensorType> kept_types(const ModelSpec& spec, GgufWeights weights, std::int32_t layer, const FusedLinear& fused) {
  std::vector<gguf::TensorType> out;
  for (int p = 0; p < fused.num_parts; ++p) {
    const auto type = kept_type(spec, weights, part_name(layer, fused, p) + ".weight");
    if (!type) return {};
    out.push_back(*type);
  }
  return out;
}

std::optional<gguf::TensorType> kept_type(const ModelSpec& spec, GgufWeights weights, std::string_view parameter) {
  return nothing_stays(spec, weights) ? std::nullopt : type_in_file(spec, parameter);
}

KeptBlocks kept_blocks(const ModelSpec& spec, GgufWeights weights) {
  KeptBlocks out;
  Counter counter;
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
    if (const auto type = kept_type(spec, weights, name)) counter.kept(*type);
  for (std::int32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const FusedLinear& fused : kFusedLinears) {
      for (const gguf::TensorType type : kept_types(spec, weights, layer, fused)) counter.kept(type);
      if (nothing_stays(spec, weights) || !kept_types(spec, weights, layer, fused).empty()) continue;
      std::string there, other;
      for (int p = 0; p < fused.num_parts; ++p) {
        const std::string name = part_name(layer, fused, p);
        std::string& text = type_in_file(spec, name + ".weight") ? there : other;
        text += (text.empty() ? "" : ", ") + name;
      }
      if (!there.empty()) out.dequantised.push_back(there + ": multiplied together with " + other + ", which is not in blocks");
    }
  }
  out.kept = counter.text();
  return out;
}

}  // namespace quire::model
