#include "model/spec.h"

#include <algorithm>

#include "model/families.h"

namespace quire::model {

const std::vector<std::string>& known_architectures() {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> names;
    for (const Family& family : families()) names.emplace_back(family.architecture);
    return names;
  }();
  return known;
}

std::int64_t derived_max_model_len(const ModelSpec& spec, std::int64_t tokenizer_model_max_length) {
  std::int64_t length = spec.max_position_embeddings;
  if (tokenizer_model_max_length > 0) length = std::min(length, tokenizer_model_max_length);
  const RopeSpec& rope = spec.rope;
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kLlama3: return length;
    case RopeKind::kLinear:
    case RopeKind::kDynamic: break;
    case RopeKind::kYarn:
      length = rope.original_max_position_embeddings > 0 ? rope.original_max_position_embeddings : spec.max_position_embeddings;
      break;
  }
  return static_cast<std::int64_t>(static_cast<double>(length) * rope.factor);  // parsed ranges keep this below 2^53
}

}  // namespace quire::model
