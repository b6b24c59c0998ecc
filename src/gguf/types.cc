#include "gguf/types.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quire::gguf {
namespace {

constexpr std::array<TypeFacts, 11> kTypes = {{{TensorType::kF32, 0, "F32", 1, 4},
                                               {TensorType::kF16, 1, "F16", 1, 2},
                                               {TensorType::kBF16, 30, "BF16", 1, 2},
                                               {TensorType::kQ4_0, 2, "Q4_0", 32, 18},
                                               {TensorType::kQ4_1, 3, "Q4_1", 32, 20},
                                               {TensorType::kQ5_0, 6, "Q5_0", 32, 22},
                                               {TensorType::kQ5_1, 7, "Q5_1", 32, 24},
                                               {TensorType::kQ8_0, 8, "Q8_0", 32, 34},
                                               {TensorType::kQ4K, 12, "Q4_K", 256, 144},
                                               {TensorType::kQ5K, 13, "Q5_K", 256, 176},
                                               {TensorType::kQ6K, 14, "Q6_K", 256, 210}}};

// Names that the format gives to ids which are not read, for messages alone.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 22> kForeign = {
    {{9, "Q8_1"},    {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
     {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},  {23, "IQ4_XS"}, {24, "I8"},     {25, "I16"},    {26, "I32"},     {27, "I64"},
     {28, "F64"},    {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},  {39, "MXFP4"},  {40, "NVFP4"}}};

}  // namespace

std::span<const TypeFacts> all_types() { return kTypes; }
const TypeFacts& facts_of(TensorType type) { return kTypes[static_cast<std::size_t>(type)]; }

const TypeFacts* type_of_id(std::uint32_t id) {
  const auto* found = std::ranges::find(kTypes, id, &TypeFacts::id);
  return found == kTypes.end() ? nullptr : found;
}

const TypeFacts* type_of_name(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &TypeFacts::name);
  return found == kTypes.end() ? nullptr : found;
}

std::string type_text(std::uint32_t id) {
  const TypeFacts* known = type_of_id(id);
  const auto* foreign = std::ranges::find(kForeign, id, &std::pair<std::uint32_t, std::string_view>::first);
  const std::string_view name = known != nullptr ? known->name : foreign != kForeign.end() ? foreign->second : std::string_view();
  return (name.empty() ? "" : std::string(name) + " ") + "(" + std::to_string(id) + ")";
}

std::string all_type_names() {
  std::string text;
  for (const TypeFacts& facts : kTypes) text += (text.empty() ? "" : ", ") + std::string(facts.name);
  return text;
}

}  // namespace quire::gguf
