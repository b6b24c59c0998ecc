// What attention needs of config.json, whatever else is in it, and of tokenizer_config.json the length.
#include <string_view>
#include <utility>

#include "base/json.h"
#include "commands/explain.h"
#include "commands/model_masks.h"
#include "model/spec.h"
#include "text/tokenizer.h"

namespace quire::commands {
namespace {

namespace json = boost::json;
constexpr std::int64_t kMaxCount = 65536;

std::optional<std::int64_t> whole(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  if (v == nullptr || !v->is_int64()) return std::nullopt;
  return v->get_int64();
}

std::string text(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v != nullptr && v->is_string() ? std::string(v->get_string()) : std::string();
}

bool truthy(const json::object& o, std::string_view key, bool absent) {
  const json::value* v = o.if_contains(key);
  return v != nullptr && v->is_bool() ? v->get_bool() : absent;
}

const json::object* child(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v != nullptr && v->is_object() ? &v->get_object() : nullptr;
}

Result<std::int32_t> count(const json::object& o, std::string_view key, std::optional<std::int64_t> absent) {
  const auto v = whole(o, key);
  const auto value = v.has_value() ? v : absent;
  if (!value.has_value()) return Error{ErrorCode::kCorrupt, "config.json: " + std::string(key) + " is missing or no integer", std::string(key)};
  if (*value < 1 || *value > kMaxCount)
    return Error{ErrorCode::kCorrupt, "config.json: " + std::string(key) + " " + std::to_string(*value) + ": must be in 1.." + std::to_string(kMaxCount), std::string(key)};
  return static_cast<std::int32_t>(*value);
}

// FP8 KV as the quantisers' files declare it: kv_cache_scheme (static scheme, or an object of 8 bits), kv_cache_quant_algo, kv_cache_quant_config.
bool declares_fp8_kv(const json::object& config) {
  const json::object* q = child(config, "quantization_config");
  if (q == nullptr) return false;
  if (const json::object* scheme = child(*q, "kv_cache_scheme")) return whole(*scheme, "num_bits") == 8 && text(*scheme, "type") == "float";
  if (!text(*q, "kv_cache_scheme").empty()) return text(*q, "kv_cache_scheme") == "static";
  if (text(*q, "kv_cache_quant_algo") == "FP8") return true;
  const json::object* quark = child(*q, "kv_cache_quant_config");
  return quark != nullptr && !quark->empty();
}

attention::MaskSet masks_of(const json::object& c) {
  attention::MaskSet masks;
  if (whole(c, "sliding_window").value_or(0) > 0 && truthy(c, "use_sliding_window", true)) masks.add(attention::Mask::kSlidingWindow);
  if (whole(c, "attention_chunk_size").value_or(0) > 0) masks.add(attention::Mask::kChunkedLocal);
  if (truthy(c, "alibi", false)) masks.add(attention::Mask::kAlibi);
  const json::value* cap = c.if_contains("attn_logit_softcapping");
  if (cap != nullptr && cap->is_number()) masks.add(attention::Mask::kSoftCap);
  if (text(c, "model_type") == "gpt_oss") masks.add(attention::Mask::kSinks);
  return masks;
}

}  // namespace

Result<ModelFacts> read_model_facts(const std::string& model_dir, const std::string& tokenizer_dir) {
  const auto config = model::read_config_json(model_dir);
  if (!config.ok()) return config.error();
  auto parsed = parse_json(config.value());
  if (!parsed.ok()) return Error{parsed.error().code, model_dir + ": config.json: " + parsed.error().message, parsed.error().param};
  if (!parsed->is_object()) return Error{ErrorCode::kCorrupt, "config.json: must be a JSON object", "config.json"};
  const json::object& top = parsed->get_object();
  const json::object* nested = child(top, "text_config");
  const json::object& c = nested != nullptr ? *nested : top;
  ModelFacts facts;
  const auto heads = count(c, "num_attention_heads", std::nullopt);
  if (!heads.ok()) return heads.error();
  facts.num_heads = heads.value();
  const auto kv_heads = count(c, "num_key_value_heads", facts.num_heads);
  if (!kv_heads.ok()) return kv_heads.error();
  facts.num_kv_heads = kv_heads.value();
  const auto hidden = whole(c, "hidden_size");
  const auto head_dim = count(c, "head_dim", hidden.has_value() ? std::optional(*hidden / facts.num_heads) : std::nullopt);
  if (!head_dim.ok()) return head_dim.error();
  facts.head_dim = head_dim.value();
  std::string dtype;
  for (const json::object* o : {&c, &top})
    for (const char* key : {"dtype", "torch_dtype"})
      if (dtype.empty()) dtype = text(*o, key);
  facts.dtype = parse_dtype(dtype).value_or(DType::kF32);
  facts.masks = masks_of(c);
  facts.limit.tokens = std::max<std::int64_t>(0, whole(c, "max_position_embeddings").value_or(0));
  auto spec = model::read_model_spec(model_dir);
  const auto tokenizer_length = text::read_model_max_length(tokenizer_dir);
  facts.fp8_kv = spec.ok() ? spec->quant.kv.has_value() : declares_fp8_kv(top);
  if (!spec.ok()) {
    facts.serve_refusal = spec.error().message;
    return facts;
  }
  facts.masks = masks_of(spec.value());
  if (tokenizer_length.ok())
    facts.limit = config::length_limit(spec.value(), {tokenizer_length.value()});
  else
    facts.serve_refusal = tokenizer_length.error().message;
  facts.spec = std::move(spec).value();
  return facts;
}

}  // namespace quire::commands
