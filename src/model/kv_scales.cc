// How the ledger is made: tensors are claimed by name, claims are read and checked, and each layer's claims are settled.
#include "model/kv_scales.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/fp8_scale.h"
#include "kv/store/kv_format.h"
#include "model/checkpoint.h"
#include "model/float_values.h"
#include "model/json_fields.h"

namespace quire::model {
namespace {

constexpr std::size_t kNumKinds = std::size(kScaleKinds);

// A tensor that says what a scale is.
struct Claim {
  std::string tensor, file;
  std::int32_t rule = 0;
  bool single = false;  // for keys and values alike
  std::vector<float> values;
};

// Every element, whatever its type; -0.0 is a zero of a float type.
bool all_zero(const CheckpointTensor& tensor, std::size_t element_bytes) {
  const bool is_float = tensor.dtype.starts_with("F") || tensor.dtype.starts_with("BF");
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
    const bool top = (i + 1) % element_bytes == 0;
    if ((tensor.bytes[i] & (is_float && top ? std::byte{0x7f} : std::byte{0xff})) != std::byte{0}) return false;
  }
  return true;
}

// The one length that is not 1: [8], [1, 8, 1] -> 8; [], [1], [1, 1] -> 1; [2, 4], [0] -> 0.
std::int64_t only_length(const std::vector<std::int64_t>& shape) {
  std::int64_t length = 1;
  for (const std::int64_t n : shape) {
    if (n == 1) continue;
    if (length != 1 || n < 1) return 0;
    length = n;
  }
  return length;
}

std::vector<float> expanded(std::vector<float> values, std::size_t count) {
  if (values.size() == 1) values.assign(count, values[0]);
  return values;
}

// One run of make_scale_ledger().
class LedgerMaker {
 public:
  LedgerMaker(const ModelSpec& spec, const ScaleQuestion& question) : spec_(spec), question_(question) {
    ledger_.kv_dtype = question.kv_dtype;
    ledger_.num_layers = spec.num_layers;
    ledger_.num_kv_heads = spec.num_kv_heads;
    ledger_.scheme = question.scheme;
    claims_.resize(static_cast<std::size_t>(spec.num_layers) * kNumKinds);
  }

  Result<ScaleLedger> run(const std::map<std::string, CheckpointTensor>& tensors) {
    if (question_.kv_dtype == DType::kFp8E5m2 && question_.weights == CheckpointWeights::kFp8)
      return Error{ErrorCode::kUnsupported,
                   "--kv-cache-dtype fp8_e5m2: not over a checkpoint of FP8 weights, whose KV scales are made for e4m3 (vLLM refuses it too); allowed: auto, fp8 (the same as "
                   "fp8_e4m3), float16, bfloat16",
                   "--kv-cache-dtype"};
    for (const auto& [name, tensor] : tensors) claim(name, tensor);
    settle();
    QUIRE_RETURN_IF_ERROR(findings_.status("KV scales"));
    return std::move(ledger_);
  }

 private:
  [[nodiscard]] bool applies() const { return question_.kv_dtype == DType::kFp8E4m3 || question_.kv_dtype == DType::kFp8E4m3Fnuz; }
  [[nodiscard]] std::vector<Claim>& claims_of(std::int32_t layer, ScaleKind kind) { return claims_[static_cast<std::size_t>(layer) * kNumKinds + static_cast<std::size_t>(kind)]; }

  // A refusal that --relaxed kv-scales softens; `softly`: how it serves then.
  void partial(std::string text, const char* softly) {
    if (question_.partial == PartialScales::kRelaxed)
      ledger_.softened.push_back(text + ": serving " + softly);
    else
      findings_.unsupported(std::move(text) + "; '--relaxed kv-scales' serves " + softly);
  }

  void claim(const std::string& name, const CheckpointTensor& tensor) {
    const auto named = scale_name(name);
    if (!named.has_value() && !looks_like_kv_scale(name)) return;
    ledger_.tensors.push_back(name);  // the map's order
    const std::string where = tensor.file + ": " + shown_text(name);
    if (!named.has_value()) return partial(where + " looks like a scale, and no rule says of what", "without it");
    if (named->block != "self_attn" || named->layer >= spec_.num_layers)
      return partial(where + " is a KV scale (rule " + std::to_string(named->rule) + ") of layer " + std::to_string(named->layer) + " (" + std::string(named->block) +
                         "), which this " + spec_.architecture + " of " + std::to_string(spec_.num_layers) + " layers does not have",
                     "without it");
    if (named->zero_point) return check_zero_point(where, tensor);
    Claim made{name, tensor.file, named->rule, named->kinds.size() > 1, {}};
    if (!read(where, named->kinds.front(), tensor, made.values)) {
      refused_a_scale_ = true;
      return;
    }
    for (const ScaleKind kind : named->kinds) claims_of(static_cast<std::int32_t>(named->layer), kind).push_back(made);
  }

  void check_zero_point(const std::string& where, const CheckpointTensor& tensor) {
    std::size_t count = 1;
    for (const std::int64_t n : tensor.shape) count *= static_cast<std::size_t>(n);  // the file's header was checked against its bytes
    if (count > 0 && !all_zero(tensor, tensor.bytes.size() / count)) findings_.unsupported(where + " is not zero: only symmetric KV scales are implemented");
  }

  // False: a finding was added.
  bool read(const std::string& where, ScaleKind kind, const CheckpointTensor& tensor, std::vector<float>& values) {
    const auto dtype = float_dtype(tensor.dtype);
    if (!dtype.has_value()) {
      findings_.unsupported(where + " is " + tensor.dtype + "; a KV scale is F32, F16 or BF16");
      return false;
    }
    if (!check_shape(where, kind, tensor.shape)) return false;
    values = float_values(*dtype, tensor.bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float x = values[i];
      if (x > 0 && std::isfinite(x)) continue;
      findings_.wrong(where + (values.size() > 1 ? " element " + std::to_string(i) : "") + " is " + shown_scale(x) + "; a scale is finite and above 0");
      return false;
    }
    return true;
  }

  bool check_shape(const std::string& where, ScaleKind kind, const std::vector<std::int64_t>& shape) {
    const std::int64_t length = only_length(shape), kv_heads = spec_.num_kv_heads;
    const bool of_keys = kind == ScaleKind::kKey || kind == ScaleKind::kValue;
    const bool per_head = length == kv_heads ? kind != ScaleKind::kProb : kind == ScaleKind::kQuery && length == spec_.num_heads;
    if (length != 1 && !per_head) {
      findings_.wrong(where + " has shape " + shape_text(shape) + "; a scale is one number" +
                      (kind == ScaleKind::kProb ? std::string() : " or one for each of the " + std::to_string(kv_heads) + " KV heads"));
      return false;
    }
    if (!question_.scheme.has_value() || !of_keys || kv_heads == 1) return true;
    const bool declared_per_head = question_.scheme->granularity == KvScheme::Granularity::kHead;
    if (declared_per_head == (length != 1)) return true;
    findings_.wrong(where + " has shape " + shape_text(shape) + ", and " + question_.scheme->declared_by + " declares " +
                    (declared_per_head ? "one scale for each of the " + std::to_string(kv_heads) + " KV heads" : std::string("one scale for the layer")));
    return false;
  }

  // The one claim of a layer and kind, or nothing.
  std::optional<Claim> agreed(std::int32_t layer, ScaleKind kind) {
    std::vector<Claim>& claims = claims_of(layer, kind);
    if (claims.empty()) return std::nullopt;
    std::stable_sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) { return a.rule < b.rule; });
    const Claim& first = claims.front();
    for (const Claim& other : claims) {
      const std::size_t count = std::max(first.values.size(), other.values.size());
      if (expanded(first.values, count) == expanded(other.values, count)) continue;
      findings_.wrong("layer " + std::to_string(layer) + ": " + shown_text(first.tensor) + " = " + scale_text(first.values) + " and " + shown_text(other.tensor) + " = " +
                      scale_text(other.values) + " are both the " + scale_kind_name(kind) + " scale");
    }
    return first;
  }

  void settle() {
    std::vector<std::int32_t> bare;  // layers without any scale of keys or values
    std::vector<std::optional<Claim>> settled(claims_.size());
    for (std::int32_t layer = 0; layer < spec_.num_layers; ++layer) {
      const auto at = [&](ScaleKind kind) -> std::optional<Claim>& { return settled[static_cast<std::size_t>(layer) * kNumKinds + static_cast<std::size_t>(kind)]; };
      for (const ScaleKind kind : kScaleKinds) at(kind) = agreed(layer, kind);
      if (!at(ScaleKind::kKey) && !at(ScaleKind::kValue)) bare.push_back(layer);
      if (applies() && !refused_a_scale_) complete(layer, at(ScaleKind::kKey), at(ScaleKind::kValue));
    }
    const bool any = bare.size() < static_cast<std::size_t>(spec_.num_layers);
    if (any && applies() && !refused_a_scale_)
      for (const std::int32_t layer : bare) partial("layer " + std::to_string(layer) + " has no KV scale, and other layers have one", "it with 1");
    ledger_.source = source_of(any);
    if (question_.calculate) ledger_.calculation_unused = any && applies() ? "the checkpoint has KV scales, and they win" : calculation_without_effect(question_.kv_dtype);
    for (std::size_t i = 0; i < settled.size(); ++i) ledger_.entries.push_back(entry(static_cast<std::int32_t>(i / kNumKinds), kScaleKinds[i % kNumKinds], settled[i]));
  }

  [[nodiscard]] ScaleSource source_of(bool any) const {
    if (!is_fp8(question_.kv_dtype)) return ScaleSource::kUnquantised;
    if (!applies()) return ScaleSource::kForced;
    if (!any) return question_.calculate ? ScaleSource::kCalculated : ScaleSource::kDefault;
    return missing_.empty() ? ScaleSource::kCheckpoint : ScaleSource::kPartly;
  }

  // A layer with a scale of keys alone, or of values alone.
  void complete(std::int32_t layer, std::optional<Claim>& key, std::optional<Claim>& value) {
    if (!key && !value) missing_.push_back(layer);
    if (key.has_value() == value.has_value()) return;
    const std::optional<Claim>& there = key ? key : value;
    partial("layer " + std::to_string(layer) + " has " + shown_text(there->tensor) + " and no scale of " + (key ? "values" : "keys"), "it with that scale for both");
    missing_.push_back(layer);
    (key ? value : key) = there;
    (key ? value : key)->single = true;
  }

  ScaleEntry entry(std::int32_t layer, ScaleKind kind, const std::optional<Claim>& claim) {
    const bool stored = kind == ScaleKind::kKey || kind == ScaleKind::kValue;
    ScaleEntry e{.layer = layer, .kind = kind};
    if (claim) {
      e.tensor = claim->tensor;
      e.rule = claim->rule;
      e.raw = claim->values;
      e.from_single = claim->single;
    }
    if (!stored) {
      e.status = claim ? ScaleStatus::kNotApplied : ScaleStatus::kNone;
      if (claim) e.reason = kind == ScaleKind::kQuery ? "queries are not quantised" : "probabilities are not quantised";
      return e;
    }
    if (!is_fp8(question_.kv_dtype)) {
      e.status = claim ? ScaleStatus::kNotApplied : ScaleStatus::kNone;
      if (claim) e.reason = std::string("the cache is ") + dtype_name(question_.kv_dtype);
      return e;
    }
    if (ledger_.source == ScaleSource::kCalculated) {
      e.status = ScaleStatus::kCalculated;
      e.reason = "calculated at start on the built-in text";
      return e;
    }
    if (!applies() || !claim) {
      e.in_use = {1.0f};
      e.status = claim ? ScaleStatus::kNotApplied : applies() ? ScaleStatus::kDefault : ScaleStatus::kForced;
      e.reason = applies() ? "the checkpoint has none" : "fp8_e5m2 has scales of 1";
      return e;
    }
    apply(e);
    return e;
  }

  void apply(ScaleEntry& e) {
    e.status = ScaleStatus::kApplied;
    e.in_use = e.raw;
    e.doubled_for_fnuz = question_.kv_dtype == DType::kFp8E4m3Fnuz;
    for (float& x : e.in_use) {
      if (e.doubled_for_fnuz) x *= 2.0f;
      if (fp8::is_scale(x)) continue;
      findings_.wrong(shown_text(e.tensor) + " = " + scale_text(e.raw) + (e.doubled_for_fnuz ? " (twice that for FNUZ)" : "") + " is outside " + scale_text(fp8::kLeastScale) + " to " +
                      scale_text(fp8::kMostScale) + ", where float32 holds what a cache stores");
      return;
    }
  }

  const ModelSpec& spec_;
  const ScaleQuestion& question_;
  ScaleLedger ledger_;
  Findings findings_;
  std::vector<std::vector<Claim>> claims_;  // [num_layers * 4]
  std::vector<std::int32_t> missing_;       // layers that lack a scale
  bool refused_a_scale_ = false;            // it is not missing as well
};

}  // namespace

Result<ScaleLedger> make_scale_ledger(const std::map<std::string, CheckpointTensor>& tensors, const ModelSpec& spec, const ScaleQuestion& question) {
  return LedgerMaker(spec, question).run(tensors);
}

ScaleLedger calculated_ledger(ScaleLedger ledger, std::span<const float> scales) {
  const auto heads = static_cast<std::size_t>(ledger.num_kv_heads);
  QUIRE_CHECK(ledger.pending());
  QUIRE_CHECK_EQ(scales.size(), static_cast<std::size_t>(ledger.num_layers) * 2 * heads);
  for (ScaleEntry& e : ledger.entries) {
    if (e.kind != ScaleKind::kKey && e.kind != ScaleKind::kValue) continue;
    const auto own = scales.subspan((static_cast<std::size_t>(e.layer) * 2 + (e.kind == ScaleKind::kValue ? 1 : 0)) * heads, heads);
    e.in_use.assign(own.begin(), own.end());
    if (std::ranges::all_of(own, [&](float x) { return x == own[0]; })) e.in_use.resize(1);
  }
  return ledger;
}

bool ScaleLedger::pending() const {
  return source == ScaleSource::kCalculated && std::ranges::any_of(entries, [](const ScaleEntry& e) { return e.status == ScaleStatus::kCalculated && e.in_use.empty(); });
}

std::vector<float> ScaleLedger::store_scales() const {
  QUIRE_CHECK(!pending()) << "KV scales are used before they are calculated";
  std::vector<float> out;
  if (!is_fp8(kv_dtype)) return out;
  for (const ScaleEntry& e : entries) {
    if (e.kind != ScaleKind::kKey && e.kind != ScaleKind::kValue) continue;
    const std::vector<float> own = expanded(e.in_use, static_cast<std::size_t>(num_kv_heads));
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

}  // namespace quire::model
