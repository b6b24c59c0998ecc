#include "calibration/scales.h"

#include <algorithm>
#include <utility>

#include "base/fp8_scale.h"

namespace quire::calibration {
namespace {

float largest(const std::vector<float>& of_heads) { return *std::ranges::max_element(of_heads); }

}  // namespace

Result<CalculatedScales> calculate_kv_scales(const Subject& subject, std::span<const TokenId> text, const Divisors& divisors,
                                             const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  const auto heads = static_cast<std::ptrdiff_t>(subject.config.spec.num_kv_heads);
  CalculatedScales out;
  out.scales.assign(kv::KvStore::num_scales(subject.kv.layout()), 1.0f);
  ObserveHooks hooks{.linear_inputs = false, .progress = progress, .before_store = {}};
  hooks.before_store = [&](std::int32_t layer, const LayerRange& range) {
    const auto keys = out.scales.begin() + std::ptrdiff_t{layer} * 2 * heads;
    std::fill_n(keys, heads, fp8::scale_of(largest(range.keys), divisors.keys));
    std::fill_n(keys + heads, heads, fp8::scale_of(largest(range.values), divisors.values));
    subject.kv.set_scales(out.scales);
  };
  const auto ranges = observe(subject, text, hooks);
  if (!ranges.ok()) return ranges.error();
  for (std::size_t layer = 0; layer < ranges->layers.size(); ++layer) {
    const auto say = [&](const std::vector<float>& seen, const char* what) {
      if (largest(seen) == 0.0f) out.zeros.push_back("layer " + std::to_string(layer) + ": every " + what + " is zero, scale 1");
    };
    say(ranges->layers[layer].keys, "key");
    say(ranges->layers[layer].values, "value");
  }
  return out;
}

}  // namespace quire::calibration
