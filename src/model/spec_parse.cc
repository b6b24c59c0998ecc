// Which fields exist at all is decided in config_fields.cc; here the consumed ones are read.
#include <boost/json/value.hpp>
#include <exception>
#include <limits>
#include <utility>

#include "base/suggest.h"
#include "model/config_fields.h"
#include "model/families.h"
#include "model/family_parse.h"
#include "model/json_fields.h"
#include "model/quant_parse.h"
#include "model/rope_parse.h"
#include "model/spec.h"
#include "model/spec_parse.h"
#include "model/token_ids.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr JsonLimits kConfigLimits = {.max_bytes = kMaxConfigBytes, .max_depth = 32};

// Limits far above any published Llama, low enough that products of two sizes fit 63 bits.
constexpr std::int64_t kMaxLayers = 1024, kMaxWidth = 65536, kMaxIntermediate = 1 << 20, kMaxHeads = 4096, kMaxHeadDim = 1024, kMaxVocab = 1 << 24;

// Stands for a size that could not be read; the finding about it refuses the file.
constexpr std::int32_t kUnread = 0;
std::int32_t as_size(std::optional<std::int64_t> size) { return size ? static_cast<std::int32_t>(*size) : kUnread; }

class ConfigReader {
 public:
  ConfigReader(const json::object& config, const json::object* hf_quant, Findings& findings) : config_(config), hf_quant_(hf_quant), findings_(findings) {}

  [[nodiscard]] ModelSpec read();

 private:
  // The field's value, or nullptr when absent or null.
  const json::value* get(const std::string& field) const {
    const json::value* value = config_.if_contains(field);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  // An integer from 1 to `most`. nullopt: it is not, and a finding says so; then nothing that would follow from it is looked at, so that one
  // mistake has one finding.
  std::optional<std::int64_t> size(const std::string& field, std::int64_t most);
  // The row of the family. nullptr: it is not known, and a finding says so; then nothing else is looked at, since each family has fields of its own.
  const Family* read_architecture(ModelSpec& spec);
  void check_stated_heads(const Family& family);
  void read_heads(std::optional<std::int64_t> hidden, ModelSpec& spec);
  void read_token_ids(std::optional<std::int64_t> vocab, ModelSpec& spec);
  DType read_dtype();

  const json::object& config_;
  const json::object* hf_quant_;  // hf_quant_config.json; nullptr: no such file
  Findings& findings_;
};

std::optional<std::int64_t> ConfigReader::size(const std::string& field, std::int64_t most) {
  const json::value* value = get(field);
  if (value == nullptr) {
    findings_.wrong(field + " is missing");
    return std::nullopt;
  }
  const auto n = exact_integer(*value);
  if (n && *n >= 1 && *n <= most) return *n;
  findings_.wrong(field + " = " + shown(*value) + " must be an integer from 1 to " + std::to_string(most));
  return std::nullopt;
}

const Family* ConfigReader::read_architecture(ModelSpec& spec) {
  std::string known;
  for (const std::string& name : known_architectures()) known += (known.empty() ? "" : ", ") + name;
  const json::value* value = get("architectures");
  const json::array* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr || list->size() != 1 || !list->front().is_string()) {
    findings_.unsupported("architectures = " + (value == nullptr ? "(absent)" : shown(*value)) + " must name one architecture (known: " + known +
                          ")");
    return nullptr;
  }
  spec.architecture.assign(list->front().get_string().data(), list->front().get_string().size());
  const Family* family = find_family(spec.architecture);
  if (family == nullptr) {
    const auto& names = known_architectures();
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    const std::string_view reason = refusal_of(spec.architecture);
    findings_.unsupported("architecture " + shown_text(spec.architecture) + " is not implemented" + (reason.empty() ? "" : ": " + std::string(reason)) + " (known: " + known + ")" +
                          (reason.empty() ? did_you_mean(spec.architecture, candidates) : std::string()));
    return nullptr;
  }
  spec.model_type = family->model_type;
  if (const json::value* type = get("model_type"); type != nullptr && (!type->is_string() || type->get_string() != json::string_view(family->model_type.data(), family->model_type.size())))
    findings_.unsupported("model_type = " + shown(*type) + " is not implemented (of a " + spec.architecture + " only \"" + spec.model_type + "\")");
  return family;
}

void ConfigReader::check_stated_heads(const Family& family) {
  if (family.states_heads && get("num_key_value_heads") == nullptr) findings_.wrong("num_key_value_heads is missing");
  if (family.states_head_dim && get("head_dim") == nullptr) findings_.wrong("head_dim is missing");
}

void ConfigReader::read_heads(std::optional<std::int64_t> hidden, ModelSpec& spec) {
  const auto heads = size("num_attention_heads", kMaxHeads);
  const auto kv_heads = get("num_key_value_heads") == nullptr ? heads : size("num_key_value_heads", kMaxHeads);
  spec.num_heads = as_size(heads);
  spec.num_kv_heads = as_size(kv_heads);
  if (heads && kv_heads && *heads % *kv_heads != 0)
    findings_.wrong("num_attention_heads = " + std::to_string(*heads) + " is not a multiple of num_key_value_heads = " + std::to_string(*kv_heads));
  std::optional<std::int64_t> head_dim;
  if (get("head_dim") != nullptr) {
    head_dim = size("head_dim", kMaxHeadDim);
  } else if (hidden && heads) {
    if (*hidden % *heads != 0)
      findings_.wrong("hidden_size = " + std::to_string(*hidden) + " is not a multiple of num_attention_heads = " + std::to_string(*heads) + ", and head_dim is absent");
    else if (*hidden / *heads > kMaxHeadDim)
      findings_.wrong("hidden_size / num_attention_heads = " + std::to_string(*hidden / *heads) + " is over the limit of " + std::to_string(kMaxHeadDim));
    else
      head_dim = *hidden / *heads;
  }
  spec.head_dim = as_size(head_dim);
  if (head_dim && *head_dim % 2 != 0) findings_.wrong("head_dim = " + std::to_string(*head_dim) + " must be even: rotary embedding turns pairs");
}

void ConfigReader::read_token_ids(std::optional<std::int64_t> vocab, ModelSpec& spec) {
  if (!vocab) return;
  spec.eos_token_ids = parse_token_ids(config_, "eos_token_id", *vocab, findings_);
  const json::value* bos = get("bos_token_id");
  if (bos == nullptr) return;
  const auto id = exact_integer(*bos);
  if (id && *id >= 0 && *id < *vocab)
    spec.bos_token_id = static_cast<TokenId>(*id);
  else
    findings_.wrong("bos_token_id = " + shown(*bos) + " must be a token id below vocab_size");
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
  const Family* row = read_architecture(spec);
  if (row == nullptr) return spec;
  const Family& family = *row;
  check_config_fields(config_, family.fields, findings_);
  const auto hidden = size("hidden_size", kMaxWidth), vocab = size("vocab_size", kMaxVocab);
  spec.hidden_size = as_size(hidden);
  spec.vocab_size = as_size(vocab);
  spec.intermediate_size = as_size(size("intermediate_size", kMaxIntermediate));
  spec.num_layers = as_size(size("num_hidden_layers", kMaxLayers));
  const auto positions = size("max_position_embeddings", std::numeric_limits<std::int32_t>::max());
  spec.max_position_embeddings = positions.value_or(kUnread);
  if (positions == 1) findings_.wrong("max_position_embeddings = 1 leaves no room for an output; at least 2");
  check_stated_heads(family);
  read_heads(hidden, spec);
  if (const json::value* eps = get("rms_norm_eps")) {
    const auto n = finite_number(*eps);
    if (n && *n > 0 && *n <= 1)
      spec.rms_norm_eps = *n;
    else
      findings_.wrong("rms_norm_eps = " + shown(*eps) + " must be a number above 0 and at most 1");
  }
  parse_family(family, config_, spec, findings_);
  spec.dtype = read_dtype();
  RopePair rope = parse_rope(config_, {family.rope_theta, family.local_rope_theta}, {positions, spec.head_dim}, findings_);
  spec.rope = rope.all;
  spec.local_rope = std::move(rope.local);
  read_token_ids(vocab, spec);
  spec.quant = parse_quantization(config_, hf_quant_, spec.num_layers, findings_);
  return spec;
}

}  // namespace

Result<ModelSpec> parse_model_spec(std::string_view text, const std::string& what, std::optional<std::string_view> hf_quant) {
  auto parsed = parse_object(text, what, kConfigLimits);
  if (!parsed.ok()) return parsed.error();
  std::optional<json::value> beside;
  if (hf_quant) {
    auto other = parse_object(*hf_quant, std::string(kHfQuantFile) + " beside " + what, kConfigLimits);
    if (!other.ok()) return other.error();
    beside = std::move(other).value();
  }
  try {
    Findings findings;
    ModelSpec spec = ConfigReader(parsed.value().get_object(), beside ? &beside->get_object() : nullptr, findings).read();
    QUIRE_RETURN_IF_ERROR(findings.status(what));
    return spec;
  } catch (const std::exception& e) {  // allocation inside the JSON library
    return Error{ErrorCode::kInternal, what + ": " + e.what(), {}};
  }
}

}  // namespace quire::model
