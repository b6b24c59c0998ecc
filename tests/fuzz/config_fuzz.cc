// Any bytes as a config.json: parsing ends in an error, or everything derived from the spec can be computed.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/checkpoint.h"
#include "model/spec_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto spec = quire::model::parse_model_spec({reinterpret_cast<const char*>(data), size}, "input");
  if (!spec.ok()) return 0;
  const std::int64_t served = quire::model::derived_max_model_len(spec.value(), 0);
  const auto table = quire::model::rope_table(spec->rope, spec->head_dim, spec->max_position_embeddings, served);
  for (const double f : table.inv_freq) QUIRE_CHECK(std::isfinite(f) && f >= 0);
  for (std::int32_t layer = 0; layer < spec->num_layers; ++layer) {
    const auto mask = spec->mask_of(layer);
    QUIRE_CHECK(mask.window >= 0 && mask.chunk == 0 && std::isfinite(mask.soft_cap) && spec->rope_of(layer).theta > 0);
  }
  QUIRE_CHECK(std::isfinite(spec->attention_scale()) && std::isfinite(spec->final_soft_cap) && spec->embedding_scale >= 1.0);
  QUIRE_CHECK(!quire::model::parameters_of(spec.value()).empty());
  return 0;
}
