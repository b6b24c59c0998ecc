// The two-sided ledger between what a model needs and what its files hold.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "gguf/file.h"
#include "model/checkpoint.h"
#include "model/finite_scan.h"
#include "model/gguf_weights.h"
#include "model/ledger_names.h"

namespace quire::model {
namespace {

constexpr char kEmbedding[] = "model.embed_tokens.weight";

class CheckpointSource final : public WeightSource {
 public:
  CheckpointSource(Checkpoint checkpoint, std::vector<std::string> ignored) : checkpoint_(std::move(checkpoint)), ignored_(std::move(ignored)) {}

  Result<Raw> read(const ParameterSpec& parameter) override {
    const auto found = checkpoint_.tensors().find(parameter.name);
    QUIRE_CHECK(found != checkpoint_.tensors().end()) << parameter.name << " was not part of the ledger";
    const CheckpointTensor& tensor = found->second;
    const DType dtype = *weight_dtype(tensor.dtype);
    // Here rather than in open(): the pages are about to be read anyway, so the scan costs no second pass over the disk.
    if (const auto bad = first_non_finite(dtype, tensor.bytes))
      return Error{ErrorCode::kCorrupt,
                   tensor.file + ": tensor " + shown_text(parameter.name) + " of shape " + shape_text(tensor.shape) +
                       " holds NaN or infinity, first at element " + std::to_string(*bad),
                   {}};
    return Raw{dtype, tensor.bytes};
  }

  std::vector<std::string> ignored_tensors() const override { return ignored_; }

 private:
  Checkpoint checkpoint_;
  std::vector<std::string> ignored_;
};

// Old Llama checkpoints store the rotary frequencies; they are derived from config.json here (rope_table).
bool is_rotary_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// A tied model may ship its output matrix too, as long as it is the same matrix.
Status check_tied_head(const Checkpoint& checkpoint, const std::string& model_dir) {
  const CheckpointTensor& head = checkpoint.tensors().at(kLmHead);
  const CheckpointTensor& embedding = checkpoint.tensors().at(kEmbedding);
  const bool equal = head.dtype == embedding.dtype && head.shape == embedding.shape && head.bytes.size() == embedding.bytes.size() &&
                     (head.bytes.empty() || std::memcmp(head.bytes.data(), embedding.bytes.data(), head.bytes.size()) == 0);
  if (equal) return {};
  return Error{
      ErrorCode::kCorrupt, model_dir + ": config.json says tie_word_embeddings true, but lm_head.weight differs from model.embed_tokens.weight", {}};
}

}  // namespace

Result<WeightSource::Blocks> WeightSource::read_blocks(const ParameterSpec& parameter) {
  QUIRE_CHECK(false) << parameter.name << " is in no GGUF file";
  return Blocks{};
}

Status check_checkpoint(const std::string& model_dir, const ModelSpec& spec) {
  if (gguf::is_gguf_path(model_dir)) {
    const auto file = gguf::File::open(model_dir);
    return file.ok() ? check_gguf_tensors(file.value(), spec) : Status(file.error());
  }
  const auto checkpoint = Checkpoint::open(model_dir);
  return checkpoint.ok() ? check_parameters(checkpoint.value(), spec, model_dir) : Status(checkpoint.error());
}

Result<std::unique_ptr<WeightSource>> open_checkpoint_weights(const std::string& model_dir, const ModelSpec& spec, const WeightRules& rules) {
  if (gguf::is_gguf_path(model_dir)) return open_gguf_weights(model_dir, spec, rules);
  auto checkpoint = Checkpoint::open(model_dir);
  if (!checkpoint.ok()) return checkpoint.error();
  const std::vector<ParameterSpec> parameters = parameters_of(spec);
  QUIRE_RETURN_IF_ERROR(check_parameters(checkpoint.value(), spec, model_dir));
  std::vector<std::string> needed;
  for (const ParameterSpec& parameter : parameters) needed.push_back(parameter.name);
  std::sort(needed.begin(), needed.end());
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : checkpoint->tensors()) {
    if (std::binary_search(needed.begin(), needed.end(), name) || std::ranges::binary_search(rules.kv_scales, name) || is_rotary_buffer(name)) continue;
    if (name == kLmHead && spec.tie_word_embeddings) {
      QUIRE_RETURN_IF_ERROR(check_tied_head(checkpoint.value(), model_dir));
      continue;
    }
    unused.push_back(shown_text(name));
  }
  if (!unused.empty()) {
    const std::string text =
        model_dir + ": " + std::to_string(unused.size()) + " tensors that " + spec.architecture + " does not use: " + first_names(unused);
    if (rules.unused == UnusedTensors::kRefused) return Error{ErrorCode::kUnsupported, text + "; '--relaxed unused-tensors' serves without them", {}};
    QUIRE_LOG_WARN("{} (ignored: --relaxed unused-tensors)", text);
  }
  return std::unique_ptr<WeightSource>(std::make_unique<CheckpointSource>(std::move(checkpoint).value(), std::move(unused)));
}

}  // namespace quire::model
