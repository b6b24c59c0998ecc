#include "quantize/calibrated.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cmath>
#include <utility>

#include "base/fp8_scale.h"

namespace quire::quantize {
namespace {

namespace json = boost::json;
using calibration::LayerRange;
using calibration::Ranges;

// A linear layer's input, by what it feeds.
struct InputField {
  const char* name;
  float LayerRange::*value;
  const char* words;
};
constexpr InputField kInputs[] = {{"qkv_input", &LayerRange::qkv_input, "the input of q, k and v"},
                                  {"o_input", &LayerRange::o_input, "attention's output"},
                                  {"gate_up_input", &LayerRange::gate_up_input, "the input of gate and up"},
                                  {"down_input", &LayerRange::down_input, "the input of down"}};

struct HeadField {
  const char* name;
  std::vector<float> LayerRange::*values;
};
constexpr HeadField kHeads[] = {{"queries", &LayerRange::queries}, {"keys", &LayerRange::keys}, {"values", &LayerRange::values}};

const LayerRange& layer_of(const Ranges& ranges, std::int64_t layer) { return ranges.layers.at(static_cast<std::size_t>(layer)); }

float most_of(const std::vector<float>& heads) { return *std::ranges::max_element(heads); }

// False: no finite number from 0 on.
bool read_number(const json::value* value, float& out) {
  if (value == nullptr || !value->is_number()) return false;
  out = static_cast<float>(value->to_number<double>());
  return std::isfinite(out) && out >= 0.0f;
}

bool read_layer(const json::object& from, std::size_t heads, LayerRange& out) {
  for (const InputField& f : kInputs)
    if (!read_number(from.if_contains(f.name), out.*f.value)) return false;
  for (const HeadField& f : kHeads) {
    const json::value* list = from.if_contains(f.name);
    if (list == nullptr || !list->is_array() || list->get_array().size() != heads) return false;
    for (const json::value& x : list->get_array())
      if (!read_number(&x, (out.*f.values).emplace_back())) return false;
  }
  return true;
}

}  // namespace

bool needs_calibration(Form form, KvScales kv) { return kv != KvScales::kNone || form_row(form).scheme.input == model::InputScaling::kStatic; }

float input_scale(const Ranges& ranges, std::int64_t layer, std::string_view linear) {
  const LayerRange& r = layer_of(ranges, layer);
  const float most = linear == "self_attn.o_proj" ? r.o_input : linear == "mlp.down_proj" ? r.down_input : linear.starts_with("mlp.") ? r.gate_up_input : r.qkv_input;
  return fp8::scale_of(most, fp8::kLargestE4m3);
}

std::vector<float> kv_scale(const Ranges& ranges, std::int64_t layer, CachePart part, KvScales kv) {
  const LayerRange& r = layer_of(ranges, layer);
  const std::vector<float>& heads = part == CachePart::kKeys ? r.keys : r.values;
  if (kv == KvScales::kTensor) return {fp8::scale_of(most_of(heads), fp8::kLargestE4m3)};
  std::vector<float> out;
  for (const float most : heads) out.push_back(fp8::scale_of(most, fp8::kLargestE4m3));
  return out;
}

std::vector<std::string> zeros_in(const Ranges& ranges, Form form, KvScales kv) {
  std::vector<std::string> out;
  for (std::size_t layer = 0; layer < ranges.layers.size(); ++layer) {
    const LayerRange& r = ranges.layers[layer];
    const auto say = [&](const std::string& what) { out.push_back("layer " + std::to_string(layer) + ": " + what + " is zero, scale 1"); };
    if (form_row(form).scheme.input == model::InputScaling::kStatic)
      for (const InputField& f : kInputs)
        if (r.*f.value == 0.0f) say(f.words);
    if (kv == KvScales::kNone) continue;
    for (const HeadField& f : {kHeads[1], kHeads[2]}) {
      const std::vector<float>& heads = r.*f.values;
      if (kv == KvScales::kTensor && most_of(heads) == 0.0f) say(std::string("every number of its ") + f.name);
      for (std::size_t h = 0; kv == KvScales::kHead && h < heads.size(); ++h)
        if (heads[h] == 0.0f) say(std::string("every number of the ") + f.name + " of head " + std::to_string(h));
    }
  }
  return out;
}

json::object ranges_json(const Ranges& ranges) {
  json::array layers;
  for (const LayerRange& r : ranges.layers) {
    json::object layer;
    for (const InputField& f : kInputs) layer[f.name] = r.*f.value;
    for (const HeadField& f : kHeads) layer[f.name] = json::array((r.*f.values).begin(), (r.*f.values).end());
    layers.push_back(std::move(layer));
  }
  return {{"tokens", ranges.num_tokens}, {"windows", ranges.num_windows}, {"layers", std::move(layers)}};
}

Result<Ranges> ranges_from_json(const json::object& from, std::int64_t num_layers, std::int64_t num_kv_heads) {
  const Error bad{ErrorCode::kCorrupt, "the journal's calibration is not of this model; --overwrite begins again", "--output"};
  const json::value *tokens = from.if_contains("tokens"), *windows = from.if_contains("windows"), *layers = from.if_contains("layers");
  if (tokens == nullptr || !tokens->is_int64() || windows == nullptr || !windows->is_int64() || layers == nullptr || !layers->is_array()) return bad;
  Ranges out;
  out.num_tokens = tokens->get_int64();
  out.num_windows = windows->get_int64();
  for (const json::value& layer : layers->get_array())
    if (!layer.is_object() || !read_layer(layer.get_object(), static_cast<std::size_t>(num_kv_heads), out.layers.emplace_back())) return bad;
  if (std::ssize(out.layers) != num_layers) return bad;
  return out;
}

}  // namespace quire::quantize
