// Which fields exist at all is decided in config_fields.cc; here the consumed ones are read.
#include <algorithm>
#include <boost/json/value.hpp>
#include <exception>
#include <limits>

#include "base/files.h"
#include "base/suggest.h"
#include "model/config_fields.h"
#include "model/json_fields.h"
#include "model/rope_parse.h"
#include "model/spec.h"
#include "model/spec_parse.h"
#include "model/token_ids.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr JsonLimits kConfigLimits = {.max_bytes = 16u << 20, .max_depth = 32};

// Limits far above any published Llama, low enough that products of two sizes fit 63 bits.
constexpr std::int64_t kMaxLayers = 1024, kMaxWidth = 65536, kMaxIntermediate = 1 << 20, kMaxHeads = 4096, kMaxHeadDim = 1024, kMaxVocab = 1 << 24;

class ConfigReader {
 public:
  ConfigReader(const json::object& config, Findings& findings) : config_(config), findings_(findings) {}

  [[nodiscard]] ModelSpec read();

 private:
  // The field's value, or nullptr when absent or null.
  const json::value* get(const std::string& field) const {
    const json::value* value = config_.if_contains(field);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::int64_t size(const std::string& field, std::int64_t most);
  std::int64_t size_or(const std::string& field, std::int64_t most, std::int64_t absent) {
    return get(field) == nullptr ? absent : size(field, most);
  }
  bool flag(const std::string& field);
  void read_architecture(ModelSpec& spec);
  void read_heads(ModelSpec& spec);
  DType read_dtype();

  const json::object& config_;
  Findings& findings_;
};

std::int64_t ConfigReader::size(const std::string& field, std::int64_t most) {
  const json::value* value = get(field);
  if (value == nullptr) {
    findings_.wrong(field + " is missing");
    return 1;
  }
  const auto n = exact_integer(*value);
  if (n && *n >= 1 && *n <= most) return *n;
  findings_.wrong(field + " = " + shown(*value) + " must be an integer from 1 to " + std::to_string(most));
  return 1;
}

bool ConfigReader::flag(const std::string& field) {
  const json::value* value = get(field);
  if (value == nullptr) return false;
  if (const bool* b = value->if_bool()) return *b;
  findings_.wrong(field + " = " + shown(*value) + " must be true or false");
  return false;
}

void ConfigReader::read_architecture(ModelSpec& spec) {
  std::string known;
  for (const std::string& name : known_architectures()) known += (known.empty() ? "" : ", ") + name;
  const json::value* value = get("architectures");
  const json::array* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr || list->size() != 1 || !list->front().is_string()) {
    findings_.unsupported("architectures = " + (value == nullptr ? "(absent)" : shown(*value)) + " must name one architecture (known: " + known +
                          ")");
    return;
  }
  spec.architecture.assign(list->front().get_string().data(), list->front().get_string().size());
  const auto& names = known_architectures();
  if (std::find(names.begin(), names.end(), spec.architecture) == names.end()) {
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    findings_.unsupported("architecture " + shown_text(spec.architecture) + " is not implemented (known: " + known + ")" +
                          did_you_mean(spec.architecture, candidates));
  }
  spec.model_type = "llama";
  if (const json::value* type = get("model_type"); type != nullptr && (!type->is_string() || type->get_string() != "llama"))
    findings_.unsupported("model_type = " + shown(*type) + " is not implemented (only \"llama\")");
}

void ConfigReader::read_heads(ModelSpec& spec) {
  spec.num_heads = static_cast<std::int32_t>(size("num_attention_heads", kMaxHeads));
  spec.num_kv_heads = static_cast<std::int32_t>(size_or("num_key_value_heads", kMaxHeads, spec.num_heads));
  if (spec.num_heads % spec.num_kv_heads != 0)
    findings_.wrong("num_attention_heads = " + std::to_string(spec.num_heads) +
                    " is not a multiple of num_key_value_heads = " + std::to_string(spec.num_kv_heads));
  if (get("head_dim") != nullptr) {
    spec.head_dim = static_cast<std::int32_t>(size("head_dim", kMaxHeadDim));
  } else {
    if (spec.hidden_size % spec.num_heads != 0)
      findings_.wrong("hidden_size = " + std::to_string(spec.hidden_size) +
                      " is not a multiple of num_attention_heads = " + std::to_string(spec.num_heads) + ", and head_dim is absent");
    spec.head_dim = spec.hidden_size / spec.num_heads;
    if (spec.head_dim > kMaxHeadDim)
      findings_.wrong("hidden_size / num_attention_heads = " + std::to_string(spec.head_dim) + " is over the limit of " +
                      std::to_string(kMaxHeadDim));
  }
  if (spec.head_dim % 2 != 0 || spec.head_dim == 0)
    findings_.wrong("head_dim = " + std::to_string(spec.head_dim) + " must be even: rotary embedding turns pairs");
}

DType ConfigReader::read_dtype() {
  std::optional<DType> dtype;
  for (const std::string field : {"dtype", "torch_dtype"}) {
    const json::value* value = get(field);
    if (value == nullptr) continue;
    const auto parsed = value->is_string() ? parse_dtype({value->get_string().data(), value->get_string().size()}) : std::nullopt;
    if (parsed != DType::kF32 && parsed != DType::kF16 && parsed != DType::kBF16)
      findings_.unsupported(field + " = " + shown(*value) + " is not implemented (float32, float16, bfloat16)");
    else if (dtype && *dtype != *parsed)
      findings_.wrong(field + " = " + shown(*value) + " contradicts dtype = " + shown(*get("dtype")));
    else
      dtype = parsed;
  }
  return dtype.value_or(DType::kF32);
}

ModelSpec ConfigReader::read() {
  ModelSpec spec;
  read_architecture(spec);
  check_config_fields(config_, findings_);
  spec.hidden_size = static_cast<std::int32_t>(size("hidden_size", kMaxWidth));
  spec.intermediate_size = static_cast<std::int32_t>(size("intermediate_size", kMaxIntermediate));
  spec.num_layers = static_cast<std::int32_t>(size("num_hidden_layers", kMaxLayers));
  spec.vocab_size = static_cast<std::int32_t>(size("vocab_size", kMaxVocab));
  spec.max_position_embeddings = size("max_position_embeddings", std::numeric_limits<std::int32_t>::max());
  if (spec.max_position_embeddings == 1) findings_.wrong("max_position_embeddings = 1 leaves no room for an output; at least 2");
  read_heads(spec);
  if (const json::value* eps = get("rms_norm_eps")) {
    const auto n = finite_number(*eps);
    if (n && *n > 0 && *n <= 1)
      spec.rms_norm_eps = *n;
    else
      findings_.wrong("rms_norm_eps = " + shown(*eps) + " must be a number above 0 and at most 1");
  }
  spec.attention_bias = flag("attention_bias");
  spec.mlp_bias = flag("mlp_bias");
  spec.tie_word_embeddings = flag("tie_word_embeddings");
  spec.dtype = read_dtype();
  spec.rope = parse_rope(config_, spec.max_position_embeddings, spec.head_dim, findings_);
  spec.eos_token_ids = parse_token_ids(config_, "eos_token_id", spec.vocab_size, findings_);
  if (const json::value* bos = get("bos_token_id")) {
    const auto id = exact_integer(*bos);
    if (id && *id >= 0 && *id < spec.vocab_size)
      spec.bos_token_id = static_cast<TokenId>(*id);
    else
      findings_.wrong("bos_token_id = " + shown(*bos) + " must be a token id below vocab_size");
  }
  return spec;
}

}  // namespace

Result<ModelSpec> parse_model_spec(std::string_view text, const std::string& what) {
  auto parsed = parse_object(text, what, kConfigLimits);
  if (!parsed.ok()) return parsed.error();
  try {
    Findings findings;
    ModelSpec spec = ConfigReader(parsed.value().get_object(), findings).read();
    QUIRE_RETURN_IF_ERROR(findings.status(what));
    return spec;
  } catch (const std::exception& e) {  // allocation inside the JSON library
    return Error{ErrorCode::kInternal, what + ": " + e.what(), {}};
  }
}

Result<ModelSpec> read_model_spec(const std::string& model_dir) {
  const std::string path = model_dir + "/config.json";
  if (!file_exists(path)) return Error{ErrorCode::kNotFound, path + ": no such file, so this is no model folder", {}};
  auto text = read_file(path, kConfigLimits.max_bytes);
  if (!text.ok()) return text.error();
  return parse_model_spec(text.value(), path);
}

}  // namespace quire::model
