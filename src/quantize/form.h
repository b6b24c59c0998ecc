// The forms of an FP8 checkpoint that `quire quantize` writes: what each makes of a linear layer and of a layer's KV scales, and the config
// that says so. One table. Knows names and shapes; must not know files or numbers.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/quantization.h"

namespace quire::quantize {

enum class Form : std::uint8_t { kFp8, kFp8Dynamic, kFp8Block, kCompressedTensors, kQuark, kModelOpt };
enum class KvScales : std::uint8_t { kNone, kTensor, kHead };

struct FormRow {
  Form form = Form::kFp8;
  std::string_view name;  // of --format
  model::LinearScheme scheme;
  std::string_view weight_scale;       // name behind the layer's, "weight_scale"
  std::string_view key_scale, value_scale;  // names behind "model.layers.N.self_attn."
  bool kv_per_head = false;            // can state one KV scale for each head
};
[[nodiscard]] std::span<const FormRow> forms();
[[nodiscard]] const FormRow& form_row(Form form);
[[nodiscard]] std::optional<Form> form_named(std::string_view name);
[[nodiscard]] std::optional<KvScales> kv_scales_named(std::string_view name);  // "none", "tensor", "head"
[[nodiscard]] std::string_view kv_scales_name(KvScales kv);

// Refuses --kv head for a form that has no words for it, naming those that do.
[[nodiscard]] Status check_kv(Form form, KvScales kv);

// "quantization_config" of config.json.
[[nodiscard]] boost::json::object quantization_config(Form form, KvScales kv);
// hf_quant_config.json, for the form that has one.
[[nodiscard]] std::optional<boost::json::object> hf_quant_config(Form form, KvScales kv);

// Where a tensor of the source stands: "model.layers.3.self_attn.q_proj.weight" -> {3, "self_attn.q_proj"}. nullopt: it is no weight of a
// linear layer of a decoder layer, so it is copied.
struct LinearWeight {
  std::int64_t layer = 0;
  std::string_view linear;
};
[[nodiscard]] std::optional<LinearWeight> linear_weight(std::string_view tensor);

}  // namespace quire::quantize
