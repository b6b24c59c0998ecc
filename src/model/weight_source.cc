// The two-sided ledger between what a model needs and what its files hold.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "model/checkpoint.h"
#include "model/finite_scan.h"
#include "model/json_fields.h"

namespace quire::model {
namespace {

constexpr std::size_t kMostNamed = 10;
constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kLmHead[] = "lm_head.weight";

// "a, b, c and 12 more"
std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNamed) text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return text;
}

class CheckpointSource final : public WeightSource {
 public:
  CheckpointSource(Checkpoint checkpoint, std::vector<std::string> ignored) : checkpoint_(std::move(checkpoint)), ignored_(std::move(ignored)) {}

  Result<Raw> read(const ParameterSpec& parameter) override {
    const auto found = checkpoint_.tensors().find(parameter.name);
    QUIRE_CHECK(found != checkpoint_.tensors().end()) << parameter.name << " was not part of the ledger";
    const CheckpointTensor& tensor = found->second;
    QUIRE_CHECK(tensor.shape == parameter.shape) << parameter.name;
    const DType dtype = *float_dtype(tensor.dtype);
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

// Everything wrong on the model's side: absent, other shape, not a float type.
Status check_needed(const Checkpoint& checkpoint, const std::vector<ParameterSpec>& parameters, const ModelSpec& spec, const std::string& model_dir) {
  std::vector<std::string> missing, lying, unreadable;
  for (const ParameterSpec& parameter : parameters) {
    const auto found = checkpoint.tensors().find(parameter.name);
    if (found == checkpoint.tensors().end()) {
      missing.push_back(parameter.name);
      continue;
    }
    const CheckpointTensor& tensor = found->second;
    if (tensor.shape != parameter.shape)
      lying.push_back(parameter.name + " is " + shape_text(tensor.shape) + ", config.json says " + shape_text(parameter.shape));
    if (!float_dtype(tensor.dtype)) unreadable.push_back(parameter.name + " is " + tensor.dtype);
  }
  std::string text;
  if (!missing.empty()) text += std::to_string(missing.size()) + " missing tensors: " + first_names(missing);
  if (!missing.empty() && missing.back() == kLmHead && !spec.tie_word_embeddings) text += " (config.json says tie_word_embeddings false)";
  if (!lying.empty()) text += (text.empty() ? "" : "; ") + std::to_string(lying.size()) + " tensors of another shape: " + first_names(lying);
  if (!unreadable.empty())
    text += (text.empty() ? "" : "; ") + std::to_string(unreadable.size()) + " tensors not in F32, F16 or BF16: " + first_names(unreadable);
  if (text.empty()) return {};
  return Error{missing.empty() && lying.empty() ? ErrorCode::kUnsupported : ErrorCode::kCorrupt, model_dir + ": " + text, {}};
}

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

Result<std::unique_ptr<WeightSource>> open_checkpoint_weights(const std::string& model_dir, const ModelSpec& spec, const WeightRules& rules) {
  auto checkpoint = Checkpoint::open(model_dir);
  if (!checkpoint.ok()) return checkpoint.error();
  const std::vector<ParameterSpec> parameters = parameters_of(spec);
  QUIRE_RETURN_IF_ERROR(check_needed(checkpoint.value(), parameters, spec, model_dir));
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
