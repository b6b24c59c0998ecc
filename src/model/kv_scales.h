// The scale ledger: for every layer, which tensor of the checkpoint gave the scales of keys, values, queries and probabilities, what was done
// to them, and whether they are in use. Pure: tensors and settings in, ledger or refusal out. Knows no device, no weights and no cache memory.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "model/quantization.h"
#include "model/spec.h"

namespace quire::model {

struct CheckpointTensor;

enum class ScaleKind : std::uint8_t { kKey, kValue, kQuery, kProb };
inline constexpr ScaleKind kScaleKinds[] = {ScaleKind::kKey, ScaleKind::kValue, ScaleKind::kQuery, ScaleKind::kProb};
[[nodiscard]] const char* scale_kind_name(ScaleKind kind);  // "k", "v", "q", "prob"

enum class ScaleStatus : std::uint8_t {
  kApplied,     // from the checkpoint, in use
  kNotApplied,  // in the checkpoint, and this configuration has no use for it: `reason`
  kDefault,     // an FP8 cache with nothing in the checkpoint: 1
  kForced,      // the format's own: 1
  kCalculated,  // --calculate-kv-scales
  kNone,        // nothing in the checkpoint, and nothing needed
};
[[nodiscard]] const char* scale_status_name(ScaleStatus status);  // "applied", "present, not applied", ...

// One layer and kind.
struct ScaleEntry {
  std::int32_t layer = 0;
  ScaleKind kind = ScaleKind::kKey;
  ScaleStatus status = ScaleStatus::kNone;
  std::string tensor;             // of the checkpoint; "": none
  std::int32_t rule = 0;          // number of the naming rule (docs/KV_SCALES.md); 0: none
  std::vector<float> raw;         // as the file says: one number, or one for each head
  std::vector<float> in_use;      // after every conversion, the same way; empty: no such scale enters the arithmetic
  bool doubled_for_fnuz = false;  // OCP's scale for FNUZ's bits, which mean half as much
  bool from_single = false;       // the tensor gives the scales of keys and values alike
  std::string reason;             // of kNotApplied, kDefault and kForced
};

// The whole model's scales in one word, for programs.
enum class ScaleSource : std::uint8_t {
  kUnquantised,  // the cache is not FP8: no scales
  kCheckpoint,   // keys and values of every layer
  kPartly,       // of some layers, 1 for the others (--relaxed kv-scales)
  kCalculated,   // at start, on the built-in text (--calculate-kv-scales)
  kForced,       // fp8_e5m2: 1 by definition
  kDefault,      // FP8 without any scale: 1
};
[[nodiscard]] const char* scale_source_name(ScaleSource source);  // "none", "checkpoint", "partly", "calculated", "forced", "default"

struct ScaleLedger {
  DType kv_dtype = DType::kBF16;
  std::int32_t num_layers = 0, num_kv_heads = 0;
  std::optional<KvScheme> scheme;
  ScaleSource source = ScaleSource::kUnquantised;
  std::vector<ScaleEntry> entries;      // [num_layers * 4], a layer's kinds in the order of kScaleKinds
  std::vector<std::string> tensors;     // of the checkpoint that the ledger accounts for, zero points included; sorted
  std::vector<std::string> softened;    // refusals that --relaxed kv-scales turned into warnings
  std::string calculation_unused;       // --calculate-kv-scales was asked for and does nothing: why; "" otherwise

  // kCalculated, and not yet: nothing is in use.
  [[nodiscard]] bool pending() const;
  // [num_layers, 2, num_kv_heads], keys then values: what KvStore::set_scales takes. Empty unless the cache is FP8. Not while pending().
  [[nodiscard]] std::vector<float> store_scales() const;
  [[nodiscard]] std::string format_name() const;  // "fp8_e4m3 (FNUZ)"
  // "fp8_e4m3 (FNUZ): keys and values of 32 of 32 layers from the checkpoint (rule 7), factor 2 for FNUZ applied".
  [[nodiscard]] std::string summary() const;
  // What an operator must be told, and hears in banner, /v1/models and a metric; empty: nothing.
  [[nodiscard]] std::vector<std::string> warnings() const;
};

// Where a checkpoint name leads, by its text alone.
struct ScaleName {
  std::int32_t rule = 0;
  std::int64_t layer = 0;
  std::string_view block;               // "self_attn", or "mixer"
  std::span<const ScaleKind> kinds;     // two for a single scale of keys and values
  bool zero_point = false;
};
// nullopt: no rule takes the name.
[[nodiscard]] std::optional<ScaleName> scale_name(std::string_view tensor);
// "scale" or "zero_point" is in the name, and it belongs to no linear layer (.weight_scale, .weight_scale_inv, .input_scale, ...).
[[nodiscard]] bool looks_like_kv_scale(std::string_view tensor);

enum class CheckpointWeights : std::uint8_t { k16Bit, kFp8 };
enum class PartialScales : std::uint8_t { kRefused, kRelaxed };  // --relaxed kv-scales

struct ScaleQuestion {
  DType kv_dtype = DType::kBF16;  // of the cache; FNUZ and OCP are two types
  std::optional<KvScheme> scheme;
  CheckpointWeights weights = CheckpointWeights::k16Bit;
  PartialScales partial = PartialScales::kRefused;
  bool calculate = false;  // --calculate-kv-scales: a checkpoint without any scale gets them at start
};
// The ledger of a checkpoint. Refused by name, with the layer: a scale-like tensor that no rule takes; a scale that is zero, negative, NaN,
// infinite, of another dtype than F32, F16 or BF16, or of a shape that is neither one number nor one for each head; a zero point that is not
// zero; two tensors for one scale that differ; an FP8 cache with scales for some layers only; fp8_e5m2 over FP8 weights. PartialScales::kRelaxed
// softens the first (the tensor is passed over) and the last but one: as in vLLM a layer's only scale then serves keys and values, and
// a layer without any has 1.
[[nodiscard]] Result<ScaleLedger> make_scale_ledger(const std::map<std::string, CheckpointTensor>& tensors, const ModelSpec& spec, const ScaleQuestion& question);

// Why --calculate-kv-scales does nothing for a cache of this type; "": it does something.
[[nodiscard]] std::string calculation_without_effect(DType kv_dtype);

// A pending ledger with what was calculated: `scales` as store_scales() has them, finite and above 0.
[[nodiscard]] ScaleLedger calculated_ledger(ScaleLedger ledger, std::span<const float> scales);

// The shortest decimal that reads back as the same float32; several: the least to the most.
[[nodiscard]] std::string scale_text(float x);
[[nodiscard]] std::string scale_text(const std::vector<float>& values);
// The summary, then a row for each entry that names a tensor; lines end in '\n'.
[[nodiscard]] std::string scale_ledger_text(const ScaleLedger& ledger);

}  // namespace quire::model
