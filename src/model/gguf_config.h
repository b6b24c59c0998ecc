// A GGUF model's metadata in the words of a Hugging Face config.json, so that one parser has every rule. Internal to model/ and its fuzzers;
// others call read_model_spec.
#pragma once
#include <boost/json/object.hpp>
#include <string>

#include "base/result.h"
#include "gguf/file.h"
#include "model/spec.h"

namespace quire::model {

// The text of a config.json. Refused by name, all findings at once: an architecture, or a key of it, that is not known (with the nearest
// known one); a key whose value would change numerics in a way that is not built; a key that is missing or of the wrong type; a file that is
// no model (an adapter), or of another version of block formats.
[[nodiscard]] Result<std::string> gguf_config_json(const gguf::File& file);

// That text through parse_model_spec, and what no config.json says: element types, and divisors of the rotary frequencies (refused: of
// another type or length, not above 0, or over another scaling).
[[nodiscard]] Result<ModelSpec> gguf_model_spec(const gguf::File& file);

// general.sampling.* in the words of generation_config.json; what has none is left out, and told in the log. Values are not judged here.
[[nodiscard]] boost::json::object gguf_sampling(const gguf::File& file);

}  // namespace quire::model
