// The scales that only a run of the model can give, as a form of checkpoint holds them.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/observe.h"
#include "quantize/form.h"

namespace quire::quantize {

// The form and the KV scales need a text to be run.
[[nodiscard]] bool needs_calibration(Form form, KvScales kv);

// Of what the linear layer ("self_attn.q_proj") of `layer` reads: its largest magnitude / 448.
[[nodiscard]] float input_scale(const calibration::Ranges& ranges, std::int64_t layer, std::string_view linear);
enum class CachePart : std::uint8_t { kKeys, kValues };
// One number, or one for each KV head: largest magnitudes / 448.
[[nodiscard]] std::vector<float> kv_scale(const calibration::Ranges& ranges, std::int64_t layer, CachePart part, KvScales kv);

// "layer 3: every value is zero, scale 1", for what the form uses.
[[nodiscard]] std::vector<std::string> zeros_in(const calibration::Ranges& ranges, Form form, KvScales kv);

[[nodiscard]] boost::json::object ranges_json(const calibration::Ranges& ranges);
// kCorrupt: not what ranges_json() writes for such a model.
[[nodiscard]] Result<calibration::Ranges> ranges_from_json(const boost::json::object& json, std::int64_t num_layers, std::int64_t num_kv_heads);

}  // namespace quire::quantize
