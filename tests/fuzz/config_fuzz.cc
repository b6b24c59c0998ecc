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
  QUIRE_CHECK(!quire::model::parameters_of(spec.value()).empty());
  return 0;
}
