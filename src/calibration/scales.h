// From the largest magnitudes of a text to scales, and the scales that are calculated at start (--calculate-kv-scales).
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "calibration/observe.h"

namespace quire::calibration {

// Divisors of the largest magnitude. Divided by fp8::kLargestE4m3 (448), the largest number that was seen becomes the largest that can be
// stored, and anything larger is clipped; divided by less, there is room above it (200: 2.24 times, 100: 4.48 times), at the price of bits below.
struct Divisors {
  float keys = 200.0f, values = 100.0f;  // vLLM's at run time: K_SCALE_CONSTANT and V_SCALE_CONSTANT
};

struct CalculatedScales {
  std::vector<float> scales;       // [layers, 2, KV heads], keys then values, one number for a layer's keys (values): as KvStore takes them
  std::vector<std::string> zeros;  // "layer 3: every value is zero, scale 1"
};

// Runs the text through the model with its FP8 cache; each layer's scales are set before its keys and values are first stored, so that
// attention reads what serving will store. Afterwards the store has the scales of the result. Errors as of observe().
[[nodiscard]] Result<CalculatedScales> calculate_kv_scales(const Subject& subject, std::span<const TokenId> text, const Divisors& divisors,
                                                           const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace quire::calibration
