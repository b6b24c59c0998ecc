// The scales of an FP8 cache, and the usual mistakes with them: what would be in use under each, so that wrong numbers can be traced to one.
// Plain numbers; reads no device.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kv/store/kv_layout.h"
#include "selfcheck/selfcheck.h"

namespace quire::selfcheck {

// [num_layers, 2, num_kv_heads], keys then values, as KvStore keeps them. Empty: the cache is not FP8.
struct ScaleTable {
  std::vector<float> scales;
  std::int32_t num_layers = 0, num_kv_heads = 0;

  // 1 where the cache has none.
  [[nodiscard]] double of(std::int32_t layer, kv::Part part, std::int32_t head) const;
};

// The place and format that numbers were wrong in.
struct ScalePlace {
  const ScaleTable& right;
  DType cache;
  std::int32_t layer = 0, head = 0;
};

// The first usual mistake that explains the numbers, in words: "as if the scale of K were doubled"; empty: none does. `fits` says
// whether these scales of keys and values give the numbers that were found.
[[nodiscard]] std::string suspected_mistake(const ScalePlace& place, const std::function<bool(double keys, double values)>& fits);

// The table that the cache holds against the one it should: a line for keys and one for values. Nothing unless the cache is FP8.
[[nodiscard]] std::vector<Verdict> compare_scales(const ScaleTable& held, const ScaleTable& right, DType cache);

}  // namespace quire::selfcheck
