// The names under which exporters store the scales of a KV cache, in one table.
#include <array>
#include <charconv>

#include "model/kv_scales.h"

namespace quire::model {
namespace {

constexpr std::array kQ = {ScaleKind::kQuery}, kK = {ScaleKind::kKey}, kV = {ScaleKind::kValue}, kP = {ScaleKind::kProb};
constexpr std::array kBoth = {ScaleKind::kKey, ScaleKind::kValue};

struct NameRule {
  std::int32_t rule;
  std::string_view block;  // between the layer's number and the suffix
  std::string_view suffix;
  std::span<const ScaleKind> kinds;
};

// Rules 1 to 13 of docs/KV_SCALES.md.
constexpr NameRule kRules[] = {
    {1, "self_attn", "attn.q_scale", kQ},
    {1, "self_attn", "attn.k_scale", kK},
    {1, "self_attn", "attn.v_scale", kV},
    {1, "self_attn", "attn.prob_scale", kP},
    {2, "self_attn", "kv_scale", kBoth},
    {3, "self_attn", "k_proj.k_scale", kK},
    {3, "self_attn", "v_proj.v_scale", kV},
    {4, "self_attn", "qkv_proj.k_scale", kK},
    {4, "self_attn", "qkv_proj.v_scale", kV},
    {5, "self_attn", "qkqkv_proj.k_scale", kK},
    {5, "self_attn", "qkqkv_proj.v_scale", kV},
    {6, "self_attn", "q_scale", kQ},
    {6, "self_attn", "k_scale", kK},
    {6, "self_attn", "v_scale", kV},
    {7, "self_attn", "k_proj.output_scale", kK},
    {7, "self_attn", "v_proj.output_scale", kV},
    {8, "self_attn", "q_proj.output_scale", kQ},
    {9, "self_attn", "prob_output_scale", kP},
    {10, "mixer", "k_proj.k_scale", kK},
    {10, "mixer", "v_proj.v_scale", kV},
    {11, "self_attn", "q.scale", kQ},
    {11, "self_attn", "k_cache.scale", kK},
    {11, "self_attn", "v_cache.scale", kV},
    {13, "attention", "kv_fake_quantizer.qscale_act", kBoth},
    {13, "attention", "q_fake_quantizer.qscale_act", kQ},
    {13, "attention", "k_fake_quantizer.qscale_act", kK},
    {13, "attention", "v_fake_quantizer.qscale_act", kV},
};

// Rule 12: a zero point stands wherever the scale could.
constexpr std::int32_t kZeroPointRule = 12;
struct ZeroPoint {
  std::string_view leaf;
  std::span<const ScaleKind> kind;
};
constexpr ZeroPoint kZeroPoints[] = {{"q_zero_point", kQ}, {"k_zero_point", kK}, {"v_zero_point", kV}};
constexpr ZeroPoint kOutputZeroPoints[] = {{"q_proj.output_zero_point", kQ}, {"k_proj.output_zero_point", kK}, {"v_proj.output_zero_point", kV}};
constexpr std::string_view kZeroPointFolders[] = {"", "attn.", "q_proj.", "k_proj.", "v_proj.", "qkv_proj.", "qkqkv_proj."};

// What comes before the layer's number, by block: Hugging Face, Nemotron-H, Mistral's own.
struct Prefix {
  std::string_view text, block;
};
constexpr Prefix kPrefixes[] = {{"model.layers.", "self_attn"}, {"model.layers.", "mixer"}, {"backbone.layers.", "mixer"}, {"layers.", "attention"}};

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// Decimal, without a sign or a leading zero, and a point behind it.
std::optional<std::int64_t> take_layer(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find('.'));
  if (digits.empty() || digits.size() > 9 || (digits.size() > 1 && digits[0] == '0') || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::int64_t layer = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  text.remove_prefix(digits.size());
  return take(text, ".") ? std::optional(layer) : std::nullopt;
}

std::span<const ScaleKind> zero_point_kind(std::string_view suffix) {
  for (const ZeroPoint& z : kOutputZeroPoints)
    if (suffix == z.leaf) return z.kind;
  for (const std::string_view folder : kZeroPointFolders) {
    std::string_view rest = suffix;
    if (!take(rest, folder)) continue;
    for (const ZeroPoint& z : kZeroPoints)
      if (rest == z.leaf) return z.kind;
  }
  return {};
}

}  // namespace

const char* scale_kind_name(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::kKey: return "k";
    case ScaleKind::kValue: return "v";
    case ScaleKind::kQuery: return "q";
    case ScaleKind::kProb: return "prob";
  }
  return "?";
}

std::optional<ScaleName> scale_name(std::string_view tensor) {
  for (const Prefix& prefix : kPrefixes) {
    std::string_view rest = tensor;
    if (!take(rest, prefix.text)) continue;
    const auto layer = take_layer(rest);
    if (!layer.has_value() || !take(rest, prefix.block) || !take(rest, ".")) continue;
    const std::string_view block = prefix.block == "attention" ? "self_attn" : prefix.block;
    for (const NameRule& r : kRules)
      if (r.block == prefix.block && r.suffix == rest) return ScaleName{r.rule, *layer, block, r.kinds, false};
    if (const auto kind = zero_point_kind(rest); !kind.empty()) return ScaleName{kZeroPointRule, *layer, block, kind, true};
  }
  return std::nullopt;
}

bool looks_like_kv_scale(std::string_view tensor) {
  if (tensor.find("scale") == std::string_view::npos && tensor.find("zero_point") == std::string_view::npos) return false;
  const std::string_view leaf = tensor.substr(tensor.rfind('.') + 1);  // npos + 1: the whole name
  for (const std::string_view of_linear : {"weight_scale", "weight_zero_point", "input_scale", "input_zero_point"})
    if (leaf.starts_with(of_linear)) return false;
  return true;
}

}  // namespace quire::model
