// Memory that split decode needs between its two kernels: sized and carved by one visitor (device/workspace.h). Owned by whoever runs steps;
// one set serves every layer of a stream, since a layer's combine has read it before the next layer writes.
#pragma once
#include <algorithm>
#include <cstdint>

#include "attention/capability.h"
#include "attention/params.h"
#include "base/checked.h"
#include "tensor/view.h"

namespace quire::attention {

struct DecodeLimits {
  std::int64_t max_rows = 0, max_seq_len = 0;
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int32_t decode_query_len = 1;
};

// All the partials that rows could need, but no more than about kSplitPartials: with that many units a row computed whole no longer
// leaves a core idle. One row of the longest length always fits.
inline constexpr std::int64_t kSplitPartials = 1024;
[[nodiscard]] inline std::int64_t split_decode_slots(const DecodeLimits& l) {
  const std::int64_t per_row = ceil_div(l.max_seq_len, std::int64_t{kPartitionTokens}) * l.decode_query_len;
  return std::min(l.max_rows * per_row, std::max(per_row, kSplitPartials));
}

// By the row's own function.
[[nodiscard]] inline std::int64_t partial_slots(const BackendCaps& backend, const DecodeLimits& l) { return backend.workspace.partial_slots == nullptr ? 0 : backend.workspace.partial_slots(l); }

// The most units that the decode kernel's list can have: each entry whole, or one for each of its slots.
[[nodiscard]] inline std::int64_t max_decode_parts(const BackendCaps& backend, const DecodeLimits& l) {
  const std::int32_t tile = query_tile(l.num_heads / l.num_kv_heads);
  return l.max_rows * ceil_div(std::int64_t{l.decode_query_len}, std::int64_t{tile}) + partial_slots(backend, l);
}

struct AttentionWorkspace {
  TensorView acc, stats;  // Partials; untouched by backends without split decode

  template <class V>
  void visit(V& v, const BackendCaps& backend, const DecodeLimits& l) {
    const std::int64_t slots = partial_slots(backend, l);
    if (slots == 0) return;
    v.tensor(acc, DType::kF32, {slots, l.num_heads, l.head_dim});
    v.tensor(stats, DType::kF32, {slots, l.num_heads, 2});
  }
  [[nodiscard]] Partials partials() const { return Partials{acc.as<float>(), stats.as<float>()}; }
};

}  // namespace quire::attention
