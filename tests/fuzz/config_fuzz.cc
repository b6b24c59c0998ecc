// Any bytes as a config.json: parsing ends in an error, or everything derived from the spec can be computed.
#include <cmath>

#include "base/check.h"
#include "fuzz/target.h"
#include "model/checkpoint.h"
#include "model/spec_parse.h"

void quire::fuzz::fuzz_config(Input input) {
  auto spec = model::parse_model_spec(text_of(input), "input");
  if (!spec.ok()) {
    QUIRE_CHECK(!spec.error().message.empty());
    return;
  }
  const std::int64_t served = model::derived_max_model_len(spec.value(), 0);
  const auto table = model::rope_table(spec->rope, spec->head_dim, spec->max_position_embeddings, served);
  for (const double f : table.inv_freq) QUIRE_CHECK(std::isfinite(f) && f >= 0);
  QUIRE_CHECK(!model::parameters_of(spec.value()).empty());
}
