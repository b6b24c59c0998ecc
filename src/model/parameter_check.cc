// The model's side of the ledger: what it needs, and what the files hold under those names.
#include <algorithm>

#include "model/checkpoint.h"
#include "model/ledger_names.h"

namespace quire::model {
namespace {

bool is_scale(const ParameterSpec& p) { return p.kind == ParameterKind::kWeightScale || p.kind == ParameterKind::kInputScale; }

// Exporters write one number as [], [1] or [1, 1], and n of them as [n] or [n, 1].
bool shape_fits(const ParameterSpec& p, const std::vector<std::int64_t>& shape) {
  if (p.shape == shape) return true;
  if (!is_scale(p)) return false;
  if (p.shape.empty()) return std::ranges::all_of(shape, [](std::int64_t n) { return n == 1; });
  return p.shape.size() == 1 && shape.size() == 2 && shape[0] == p.shape[0] && shape[1] == 1;
}

// Why a tensor's type is not the parameter's; "": it is.
std::string type_mistake(const ParameterSpec& p, const std::string& dtype, const ModelSpec& spec) {
  const bool fp8 = p.kind == ParameterKind::kFp8;
  if (fp8 ? dtype == "F8_E4M3" : float_dtype(dtype).has_value()) return {};
  std::string text = p.name + " is " + dtype;
  if (fp8) return text + ", and " + spec.quant.declared_by + " makes it F8_E4M3";
  if (dtype.starts_with("F8_")) return text + ", and " + (spec.quant.declared_by.empty() ? "config.json declares no quantisation" : spec.quant.declared_by + " does not quantise it");
  return text;
}

}  // namespace

Status check_parameters(const Checkpoint& checkpoint, const ModelSpec& spec, const std::string& model_dir) {
  std::vector<std::string> missing, lying, unreadable, otherwise;  // absent; of another shape; of a type that nothing is read from; of another than declared
  for (const ParameterSpec& p : parameters_of(spec)) {
    const auto found = checkpoint.tensors().find(p.name);
    if (found == checkpoint.tensors().end()) {
      missing.push_back(p.name);
      continue;
    }
    const CheckpointTensor& tensor = found->second;
    if (!shape_fits(p, tensor.shape))
      lying.push_back(p.name + " is " + shape_text(tensor.shape) + ", config.json says " + (p.shape.empty() ? "one number" : shape_text(p.shape)));
    if (const std::string mistake = type_mistake(p, tensor.dtype, spec); !mistake.empty())
      (p.kind == ParameterKind::kFp8 || tensor.dtype.starts_with("F8_") ? otherwise : unreadable).push_back(mistake);
  }
  std::string text;
  const auto say = [&](const std::vector<std::string>& names, const char* what) {
    if (!names.empty()) text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + what + first_names(names);
  };
  say(missing, " missing tensors: ");
  if (!missing.empty() && missing.back() == kLmHead && !spec.tie_word_embeddings) text += " (config.json says tie_word_embeddings false)";
  say(lying, " tensors of another shape: ");
  say(unreadable, " tensors not in F32, F16 or BF16: ");
  say(otherwise, " tensors quantised otherwise than declared: ");
  if (text.empty()) return {};
  return Error{missing.empty() && lying.empty() && otherwise.empty() ? ErrorCode::kUnsupported : ErrorCode::kCorrupt, model_dir + ": " + text, {}};
}

}  // namespace quire::model
