#include "model/gguf_config.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/text.h"
#include "gguf/blocks.h"
#include "gguf/end_tokens.h"
#include "model/checkpoint.h"
#include "model/families.h"
#include "model/gguf_architectures.h"
#include "model/json_fields.h"
#include "model/spec_parse.h"

namespace quire::model {
namespace {

namespace json = boost::json;

constexpr std::int64_t kBlockFormats = 2;  // value of general.quantization_version

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

// A 32-bit float as the shortest decimal that gives it back: 1e-05, as a config.json has it, and not 9.99999974737875e-06.
double shortest(double x) {
  const auto narrow = static_cast<float>(x);
  if (static_cast<double>(narrow) != x) return x;
  std::array<char, 64> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), narrow);
  double out = x;
  std::from_chars(text.data(), written.ptr, out);
  return out;
}

// nullopt: text, or an array of different numbers. An array that gives every layer the same number is that number.
std::optional<json::value> scalar(const gguf::Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return json::value(*flag);
  if (const auto* n = std::get_if<std::int64_t>(&value)) return json::value(*n);
  if (const auto* x = std::get_if<double>(&value)) return std::isfinite(*x) ? std::optional(json::value(shortest(*x))) : std::nullopt;
  const auto* list = std::get_if<gguf::Integers>(&value);
  if (list == nullptr || list->empty() || !std::ranges::all_of(*list, [&](std::int64_t n) { return n == list->front(); })) return std::nullopt;
  return json::value(list->front());
}

bool same_value(const json::value& a, const json::value& b) {
  const auto x = finite_number(a), y = finite_number(b);
  return x && y ? *x == *y : a == b;
}

// For a few names; each search walks through the whole list.
const gguf::Tensor* find_tensor(const gguf::File& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &gguf::Tensor::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

// Element types of the matrices, most frequent first.
std::vector<std::pair<gguf::TensorType, std::int64_t>> matrix_types(const gguf::File& file) {
  std::map<gguf::TensorType, std::int64_t> counts;
  for (const gguf::Tensor& t : file.tensors())
    if (t.shape.size() > 1) ++counts[t.type];
  std::vector<std::pair<gguf::TensorType, std::int64_t>> out(counts.begin(), counts.end());
  std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

bool any_quantised(const gguf::File& file) {
  return std::ranges::any_of(file.tensors(), [](const gguf::Tensor& t) { return gguf::is_quantised(t.type); });
}

class ConfigWriter {
 public:
  ConfigWriter(const gguf::File& file, const GgufArchitecture& architecture, Findings& findings) : file_(file), architecture_(architecture), prefix_(std::string(architecture.name) + "."), findings_(findings) {}

  json::object write() {
    read_keys();
    name_architecture();
    settle_head_dim();
    write_rope();
    write_vocabulary();
    for (const GgufFlagTensor& flag : architecture_.flags) out_[view(flag.field)] = find_tensor(file_, flag.tensor) != nullptr;
    out_["tie_word_embeddings"] = find_tensor(file_, "output.weight") == nullptr;
    out_["dtype"] = dtype();
    check_general();
    return std::move(out_);
  }

 private:
  [[nodiscard]] const gguf::Value* find(std::string_view key) const { return file_.metadata().find(prefix_ + std::string(key)); }
  [[nodiscard]] const GgufKey* row_of(std::string_view key) const {
    for (const auto keys : {architecture_.keys, gguf_shared_keys()})
      if (const auto found = std::ranges::find(keys, key, &GgufKey::key); found != keys.end()) return &*found;
    return nullptr;
  }
  // A value of any key; a finding and nullopt when it is of another kind.
  template <class T>
  std::optional<T> get(const std::string& key) {
    auto value = file_.metadata().get<T>(key);
    if (value.ok()) return value.value();
    findings_.wrong(value.error().message);
    return std::nullopt;
  }

  void read_keys() {
    std::vector<std::string_view> known;
    for (const auto keys : {architecture_.keys, gguf_shared_keys()})
      for (const GgufKey& row : keys) {
        known.push_back(row.key);
        if (row.fate == GgufKeyFate::kRequired && find(row.key) == nullptr) findings_.wrong(prefix_ + std::string(row.key) + " is missing");
      }
    for (const auto& [name, value] : file_.metadata().values()) {
      if (!name.starts_with(prefix_)) continue;
      const std::string_view key = std::string_view(name).substr(prefix_.size());
      const GgufKey* row = row_of(key);
      if (row == nullptr)
        findings_.unsupported("unknown metadata key " + shown_text(name) + " = " + gguf::value_text(value) + did_you_mean(key, known) + ", which may change the model's results");
      else
        read_key(*row, name, value);
    }
  }

  void read_key(const GgufKey& row, const std::string& name, const gguf::Value& value) {
    if (row.fate == GgufKeyFate::kIgnorable || row.fate == GgufKeyFate::kRope) return;
    if (const auto* flags = std::get_if<gguf::Integers>(&value); flags != nullptr && row.fate == GgufKeyFate::kLayerWindows) return read_layer_windows(name, value, *flags);
    const auto number = scalar(value);
    if (!number) {
      if (std::holds_alternative<gguf::Integers>(value)) return findings_.unsupported(name + " = " + gguf::value_text(value) + " is not implemented (one number for all layers)");
      return findings_.wrong(name + " = " + gguf::value_text(value) + " must be a finite number");
    }
    if (row.fate == GgufKeyFate::kHeadDim)
      head_dims_.emplace_back(name, *number);
    else if (row.fate == GgufKeyFate::kNeutral)
      check_neutral(row, name + " = " + gguf::value_text(value), *number);
    else if (row.fate == GgufKeyFate::kWindow && exact_integer(*number) == 0)
      out_[view(row.field)] = nullptr;
    else
      out_[view(row.field)] = *number;
  }

  void read_layer_windows(const std::string& name, const gguf::Value& value, const gguf::Integers& flags) {
    if (!std::ranges::all_of(flags, [](std::int64_t n) { return n == 0 || n == 1; })) return findings_.wrong(name + " = " + gguf::value_text(value) + " must be one number, or 0 or 1 for each layer");
    json::array kinds;
    for (const std::int64_t windowed : flags) kinds.emplace_back(windowed == 1 ? "sliding_attention" : "full_attention");
    out_["layer_types"] = std::move(kinds);
  }

  // A window makes another architecture of some names.
  void name_architecture() {
    const json::value* window = out_.if_contains("sliding_window");
    const bool windowed = !architecture_.windowed_architecture.empty() && window != nullptr && !window->is_null();
    out_["architectures"] = json::array{view(windowed ? architecture_.windowed_architecture : architecture_.architecture)};
    out_["model_type"] = view(windowed ? architecture_.windowed_model_type : architecture_.model_type);
    if (window == nullptr && architecture_.absent_window_is_none) out_["sliding_window"] = nullptr;
  }

  void check_neutral(const GgufKey& row, const std::string& stated, const json::value& number) {
    const json::value accepted = json::parse(view(row.neutral));
    std::string allowed = "absent";
    for (const json::value& one : accepted.get_array()) {
      if (same_value(one, number)) return;
      allowed += " or " + shown(one);
    }
    findings_.unsupported(stated + " is not implemented (only " + allowed + ")");
  }

  // Heads whose values have another size, and rotary embedding of a part of a head, are not built.
  void settle_head_dim() {
    const auto number = [&](const char* field) { return out_.contains(field) ? exact_integer(out_.at(field)) : std::nullopt; };
    auto head_dim = number("head_dim");
    const auto hidden = number("hidden_size"), heads = number("num_attention_heads");
    if (!head_dim && hidden && heads && *heads > 0 && *hidden % *heads == 0) head_dim = *hidden / *heads;
    if (!head_dim) return;  // a finding about it is there, or will be
    for (const auto& [name, value] : head_dims_)
      if (exact_integer(value) != head_dim) findings_.unsupported(name + " = " + shown(value) + " is not implemented (only the size of a head, " + std::to_string(*head_dim) + ")");
    if (architecture_.wide_scalar_layers == 0) return;
    const bool wide = number("num_hidden_layers") == architecture_.wide_scalar_layers && hidden && heads && *heads > 0;
    out_["query_pre_attn_scalar"] = wide ? *hidden / *heads : *head_dim;
  }

  void write_rope() {
    const auto type = get<std::string_view>(prefix_ + "rope.scaling.type");
    const gguf::Value* stated = find("rope.scaling.factor");
    const auto factor = stated == nullptr ? std::nullopt : scalar(*stated);
    const std::string kind(type.value_or(stated == nullptr ? "none" : "linear"));  // a factor alone scales linearly
    if (kind == "none") return;
    if (kind != "linear" && kind != "yarn") return findings_.unsupported(prefix_ + "rope.scaling.type = " + shown_text(kind) + " is not implemented (none, linear, yarn)");
    const auto value = factor ? finite_number(*factor) : std::nullopt;
    if (!value || *value < 0) return findings_.wrong(prefix_ + "rope.scaling.factor " + (stated == nullptr ? "is missing" : "= " + gguf::value_text(*stated) + " must be a number of at least 0"));
    if (kind == "linear" && (*value == 0 || *value == 1)) return;  // llama.cpp takes 0 for 1
    json::object rope = {{"rope_type", view(kind)}, {"factor", *factor}};
    if (kind == "yarn")
      for (const auto& [key, field] : {std::pair("original_context_length", "original_max_position_embeddings"), {"yarn_beta_fast", "beta_fast"}, {"yarn_beta_slow", "beta_slow"}})
        if (const gguf::Value* more = find("rope.scaling." + std::string(key))) {
          if (const auto n = scalar(*more))
            rope[field] = *n;
          else
            findings_.wrong(prefix_ + "rope.scaling." + key + " = " + gguf::value_text(*more) + " must be a number");
        }
    out_["rope_scaling"] = std::move(rope);
  }

  // The number of tokens: of the list where the embedding has as many rows, whatever `vocab_size` says. End tokens: of a text, of a turn and of
  // a message, as the metadata name them; then tokens that are known to end answers.
  void write_vocabulary() {
    const gguf::Value* list = file_.metadata().find("tokenizer.ggml.tokens");
    const auto* tokens = list == nullptr ? nullptr : std::get_if<gguf::Strings>(list);
    const gguf::Tensor* embedding = find_tensor(file_, "token_embd.weight");
    const bool agree = tokens != nullptr && embedding != nullptr && !embedding->shape.empty() && embedding->shape.front() == std::ssize(*tokens);
    if (tokens != nullptr && (agree || !out_.contains("vocab_size"))) out_["vocab_size"] = std::ssize(*tokens);
    json::array ends;
    const auto add = [&](std::int64_t id) {
      if (std::ranges::find(ends, json::value(id)) == ends.end()) ends.emplace_back(id);
    };
    for (const char* key : {"eos", "eot", "eom"})
      if (const auto id = get<std::int64_t>("tokenizer.ggml." + std::string(key) + "_token_id")) add(*id);
    if (tokens != nullptr)
      for (const std::string_view text : gguf::kEndTokens)
        if (const auto found = std::ranges::find(*tokens, text); found != tokens->end()) add(found - tokens->begin());
    if (!ends.empty()) out_["eos_token_id"] = ends.size() == 1 ? ends.front() : json::value(ends);
    if (const auto id = get<std::int64_t>("tokenizer.ggml.bos_token_id")) out_["bos_token_id"] = *id;
  }

  // What holds the matrices: float16 for blocks, whose scales are float16; else their own type, float32 where they differ.
  const char* dtype() const {
    const auto types = matrix_types(file_);
    if (std::ranges::any_of(types, [](const auto& t) { return gguf::is_quantised(t.first); })) return dtype_name(DType::kF16);
    if (types.size() != 1 || types.front().first == gguf::TensorType::kF32) return dtype_name(DType::kF32);
    return dtype_name(types.front().first == gguf::TensorType::kF16 ? DType::kF16 : DType::kBF16);
  }

  void check_general() {
    if (const auto type = get<std::string_view>("general.type"); type && *type != "model") findings_.unsupported("general.type = " + shown_text(*type) + " is no model");
    if (const auto version = get<std::int64_t>("general.quantization_version"); version && *version != kBlockFormats && any_quantised(file_))
      findings_.unsupported("general.quantization_version = " + std::to_string(*version) + ": blocks of version " + std::to_string(kBlockFormats) + " are read (convert the model again with a current tool)");
  }

  const gguf::File& file_;
  const GgufArchitecture& architecture_;
  const std::string prefix_;
  Findings& findings_;
  json::object out_;
  std::vector<std::pair<std::string, json::value>> head_dims_;  // keys that must be the head's size, and what they say
};

// Namespaces that no reader of models knows describe where a file came from; which they are is said.
void log_foreign_keys(const gguf::File& file, std::string_view architecture) {
  std::vector<std::string> foreign;
  for (const auto& [key, value] : file.metadata().values()) {
    const std::string_view space = std::string_view(key).substr(0, key.find('.'));
    if (space != architecture && space != "general" && space != "tokenizer" && space != "split") foreign.push_back(loggable(key, 64));
  }
  if (!foreign.empty()) QUIRE_LOG_INFO("{}: metadata keys of no known namespace are passed over: {}", file.name(), joined(foreign, ", "));
}

Result<const GgufArchitecture*> architecture_of(const gguf::File& file) {
  const auto name = file.metadata().get<std::string_view>("general.architecture");
  if (!name.ok()) return file.at_file(name.error());
  std::vector<std::string_view> names;
  std::string known;
  for (const GgufArchitecture& a : gguf_architectures()) {
    names.push_back(a.name);
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  if (!name->has_value()) return Error{ErrorCode::kCorrupt, file.name() + ": general.architecture is missing (known: " + known + ")", {}};
  const std::string_view asked = *name.value();
  if (const GgufArchitecture* found = gguf_architecture(asked)) return found;
  return Error{ErrorCode::kUnsupported, file.name() + ": general.architecture = " + shown_text(asked) + " is not implemented (known: " + known + ")" + did_you_mean(asked, names), {}};
}

// rope_freqs.weight into `spec`.
Status read_rope_factors(const gguf::File& file, ModelSpec& spec) {
  const gguf::Tensor* tensor = find_tensor(file, kGgufRopeFactors);
  if (tensor == nullptr) return {};
  const auto wrong = [&](ErrorCode code, const std::string& text) { return Error{code, file.name() + ": tensor \"" + std::string(kGgufRopeFactors) + "\" " + text, {}}; };
  const std::int64_t pairs = spec.head_dim / 2;
  if (tensor->type != gguf::TensorType::kF32 || tensor->shape != std::vector{pairs}) return wrong(ErrorCode::kCorrupt, "must hold " + std::to_string(pairs) + " numbers of type F32, one for each pair of a head");
  if (spec.rope.kind != RopeKind::kDefault) return wrong(ErrorCode::kUnsupported, "over rope.scaling.type is not implemented (one of the two)");
  std::vector<float> divisors(static_cast<std::size_t>(pairs));
  gguf::dequantise(tensor->type, tensor->bytes, divisors);
  for (std::size_t i = 0; i < divisors.size(); ++i)
    if (!(divisors[i] > 0) || !std::isfinite(divisors[i])) return wrong(ErrorCode::kCorrupt, "holds " + std::to_string(divisors[i]) + " at element " + std::to_string(i) + "; divisors of frequencies are finite and above 0");
  spec.rope.divisors.assign(divisors.begin(), divisors.end());
  return {};
}

constexpr std::string_view kSamplingSpace = "general.sampling.";
constexpr std::pair<std::string_view, std::string_view> kSamplingKeys[] = {{"temp", "temperature"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"}, {"penalty_repeat", "repetition_penalty"}};

}  // namespace

json::object gguf_sampling(const gguf::File& file) {
  json::object out;
  std::vector<std::string> others;
  for (const auto& [key, value] : file.metadata().values()) {
    if (!key.starts_with(kSamplingSpace)) continue;
    const auto* row = std::ranges::find(kSamplingKeys, std::string_view(key).substr(kSamplingSpace.size()), &std::pair<std::string_view, std::string_view>::first);
    if (row == std::end(kSamplingKeys)) others.push_back(loggable(key, 64));
    else out[view(row->second)] = scalar(value).value_or(json::value(gguf::value_text(value)));
  }
  if (!others.empty()) QUIRE_LOG_INFO("{}: passed over: {}", file.name(), joined(others, ", "));
  return out;
}

Result<std::string> gguf_config_json(const gguf::File& file) {
  const auto architecture = architecture_of(file);
  if (!architecture.ok()) return architecture.error();
  Findings findings;
  const json::object config = ConfigWriter(file, *architecture.value(), findings).write();
  QUIRE_RETURN_IF_ERROR(findings.status(file.name()));
  return json::serialize(config);
}

Result<ModelSpec> gguf_model_spec(const gguf::File& file) {
  const auto text = gguf_config_json(file);
  if (!text.ok()) return text.error();
  auto spec = parse_model_spec(text.value(), file.name() + ", its metadata as a config.json");
  if (!spec.ok()) return spec;
  QUIRE_RETURN_IF_ERROR(read_rope_factors(file, spec.value()));
  const Family* family = find_family(spec->architecture);
  QUIRE_CHECK(family != nullptr) << spec->architecture;
  if (family->gguf_norms_hold_offset) spec->norm_weight_offset = 0.0;
  GgufFacts facts{.matrices = {}, .quantised = any_quantised(file)};
  for (const auto& [type, count] : matrix_types(file)) facts.matrices += (facts.matrices.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(gguf::facts_of(type).name);
  spec->gguf = std::move(facts);
  std::unordered_map<std::string_view, gguf::TensorType> coded;
  for (const gguf::Tensor& tensor : file.tensors())
    if (gguf::is_quantised(tensor.type)) coded.emplace(tensor.name, tensor.type);
  for (const ParameterSpec& p : parameters_of(spec.value())) {
    const auto found = coded.find(gguf_tensor_name(*gguf_architecture_of(spec->architecture), p.name));
    if (found != coded.end() && p.shape.size() == 2) spec->gguf->blocks.emplace(p.name, found->second);
  }
  log_foreign_keys(file, std::get<std::string_view>(*file.metadata().find("general.architecture")));
  return spec;
}

}  // namespace quire::model
