// Tensors of a Hugging Face folder (safetensors, one file or shards with an index) or of a GGUF file, verified before anything reads them.
// Knows files and names; knows nothing of devices or layers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "model/spec.h"

namespace quire::model {

// One tensor of the checkpoint, still in the mapped file.
struct CheckpointTensor {
  std::string dtype;  // as the file says: "F32", "F16", "BF16", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // little-endian, row-major; lives as long as the Checkpoint
  std::string file;                  // file name, for messages
};

// The types that scales and all weights that are not quantised are read from: "F32", "F16", "BF16".
[[nodiscard]] std::optional<DType> float_dtype(std::string_view name);
// Those, and "F8_E4M3".
[[nodiscard]] std::optional<DType> weight_dtype(std::string_view name);
// "[2, 3]"
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

class Checkpoint {
 public:
  // Maps every shard and checks, before returning: header length and JSON within bounds; every dtype known; shape times
  // element size (checked arithmetic) equals its byte range; ranges cover the data section exactly, with no gap, overlap,
  // or bytes missing at the end; no name twice (within or across shards); every index entry present in the shard it names
  // and every shard tensor present in the index. Errors (kCorrupt) name file, tensor and numbers.
  [[nodiscard]] static Result<Checkpoint> open(const std::string& model_dir);

  [[nodiscard]] const std::map<std::string, CheckpointTensor>& tensors() const { return tensors_; }
  [[nodiscard]] std::uint64_t total_bytes() const;

 private:
  Checkpoint() = default;
  std::vector<MappedFile> files_;
  std::map<std::string, CheckpointTensor> tensors_;
};

// What a parameter is in a file.
enum class ParameterKind : std::uint8_t {
  kFloat,        // F32, F16 or BF16
  kFp8,          // F8_E4M3
  kWeightScale,  // F32, F16 or BF16, each above 0
  kInputScale,   // the same, one number
};

// A parameter that the model needs, by its Hugging Face name.
struct ParameterSpec {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  // Scales: {} for one number, which a file may write as [], [1], [1, 1]; {n} for one of each output, in a file [n] or [n, 1].
  std::vector<std::int64_t> shape;
  ParameterKind kind = ParameterKind::kFloat;
};

// A linear layer's weight is [rows, columns].
[[nodiscard]] std::int64_t linear_rows(const ModelSpec& spec, LinearKind kind);
[[nodiscard]] std::int64_t linear_columns(const ModelSpec& spec, LinearKind kind);
// Whether it has one number more for each of its outputs.
[[nodiscard]] bool has_bias(const ModelSpec& spec, LinearKind kind);

// Every parameter of a model, in file order of a layer walk; the scales of a quantised linear layer before its weight. Tied embeddings: no
// "lm_head.weight".
[[nodiscard]] std::vector<ParameterSpec> parameters_of(const ModelSpec& spec);

// Every parameter is there, in its shape and type. An error names what is not, by kind of mistake.
[[nodiscard]] Status check_parameters(const Checkpoint& checkpoint, const ModelSpec& spec, const std::string& model_dir);

// The same of whatever MODEL is, a folder or a GGUF file, by its headers alone.
[[nodiscard]] Status check_checkpoint(const std::string& model_dir, const ModelSpec& spec);

// Where weights come from: a checkpoint or deterministic dummies.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The raw tensor of `parameter` (one of parameters_of the same spec): kF32, kF16 or kBF16, or kFp8E4m3 of ParameterKind::kFp8; row-major,
  // not aligned (quantised tensors of a GGUF file: kF32). Valid until the next call on the same thread. Calls from several threads are allowed. NaN and infinity are refused (kCorrupt), naming the element.
  struct Raw {
    DType dtype;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] virtual Result<Raw> read(const ParameterSpec& parameter) = 0;
  // The blocks of a parameter in ModelSpec::gguf->blocks, rows in the model's order; as long valid. Of no other parameter.
  struct Blocks {
    gguf::TensorType type;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] virtual Result<Blocks> read_blocks(const ParameterSpec& parameter);
  // Tensors of the files that are left out only because of `--relaxed unused-tensors`; empty otherwise.
  [[nodiscard]] virtual std::vector<std::string> ignored_tensors() const { return {}; }
};

enum class UnusedTensors : std::uint8_t { kRefused, kRelaxed };  // --relaxed unused-tensors
struct WeightRules {
  UnusedTensors unused = UnusedTensors::kRefused;
  std::span<const std::string> kv_scales = {};  // ScaleLedger::tensors: used, though not here; sorted
};
// Two-sided ledger check: check_parameters(), and every tensor of the file used or on
// the ignorable list (rotary_emb.inv_freq, and lm_head.weight when tied AND equal to embed_tokens; a tied lm_head that differs is
// refused). Unknown tensors are refused by name (all of them, up to 10, with a count) unless `rules` relax that. `model_dir` may be a GGUF
// file: the same by its own names.
[[nodiscard]] Result<std::unique_ptr<WeightSource>> open_checkpoint_weights(const std::string& model_dir, const ModelSpec& spec, const WeightRules& rules);

// --load-format dummy: deterministic values from (seed, parameter name, element index) alone, in `spec.dtype`: what norms multiply by is 1 + small, others
// normal-like with standard deviation 0.02, finite; FP8 weights and their scales make up numbers of that size. Same bits on every machine and whatever the order of reads.
[[nodiscard]] std::unique_ptr<WeightSource> dummy_weights(const ModelSpec& spec, std::uint64_t seed);

// MODEL argument to a folder or a GGUF file: a path, or a hub id ("org/name", optional revision) resolved in the local Hugging Face cache
// (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub; refs/<revision> -> snapshots/<hash>). A missing one is an error that
// names the download command.
[[nodiscard]] Result<std::string> resolve_model_dir(const std::string& model, const std::string& revision);

}  // namespace quire::model
