// The parameter list of the one layer walk of all families, in the names of Hugging Face checkpoints.
#include <string>

#include "base/checked.h"
#include "model/checkpoint.h"
#include "model/norm_names.h"

namespace quire::model {
namespace {

std::vector<std::int64_t> scale_shape(WeightScaling scaling, std::int64_t rows, std::int64_t columns) {
  switch (scaling) {
    case WeightScaling::kNone:
    case WeightScaling::kTensor: return {};
    case WeightScaling::kChannel: return {rows};
    case WeightScaling::kBlock: return {ceil_div(rows, kScaleBlock), ceil_div(columns, kScaleBlock)};
  }
  return {};
}

// A linear layer of the walk: its scales if it is quantised in the file, weight [out, in], and bias [out] where the config says so.
void add_linear(std::vector<ParameterSpec>& out, const ModelSpec& spec, std::int32_t layer, LinearKind kind) {
  const std::string name = "model.layers." + std::to_string(layer) + "." + std::string(kLinearNames[static_cast<std::size_t>(kind)]) + ".";
  const std::int64_t rows = linear_rows(spec, kind), columns = linear_columns(spec, kind);
  const LinearScheme scheme = spec.quant.on_load ? LinearScheme{} : spec.quant.scheme_of(layer, kind);
  const bool quantised = scheme.weight != WeightScaling::kNone;
  if (quantised) out.push_back({name + std::string(weight_scale_name(spec.quant.method, scheme.weight)), scale_shape(scheme.weight, rows, columns), ParameterKind::kWeightScale});
  if (quantised && scheme.input == InputScaling::kStatic) out.push_back({name + std::string(kInputScaleName), {}, ParameterKind::kInputScale});
  out.push_back({name + "weight", {rows, columns}, quantised ? ParameterKind::kFp8 : ParameterKind::kFloat});
  if (has_bias(spec, kind)) out.push_back({name + "bias", {rows}});
}

}  // namespace

std::int64_t linear_rows(const ModelSpec& spec, LinearKind kind) {
  switch (kind) {
    case LinearKind::kQ: return std::int64_t{spec.num_heads} * spec.head_dim;
    case LinearKind::kK:
    case LinearKind::kV: return std::int64_t{spec.num_kv_heads} * spec.head_dim;
    case LinearKind::kO:
    case LinearKind::kDown: return spec.hidden_size;
    case LinearKind::kGate:
    case LinearKind::kUp: return spec.intermediate_size;
  }
  return 0;
}

std::int64_t linear_columns(const ModelSpec& spec, LinearKind kind) {
  return kind == LinearKind::kO ? std::int64_t{spec.num_heads} * spec.head_dim : kind == LinearKind::kDown ? spec.intermediate_size : spec.hidden_size;
}

bool has_bias(const ModelSpec& spec, LinearKind kind) {
  switch (kind) {
    case LinearKind::kQ:
    case LinearKind::kK:
    case LinearKind::kV: return spec.qkv_bias;
    case LinearKind::kO: return spec.o_bias;
    case LinearKind::kGate:
    case LinearKind::kUp:
    case LinearKind::kDown: return spec.mlp_bias;
  }
  return false;
}

std::vector<ParameterSpec> parameters_of(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  std::vector<ParameterSpec> out;
  const auto norm = [&](const std::string& name, std::int64_t width) { out.push_back({name + ".weight", {width}}); };
  out.push_back({"model.embed_tokens.weight", {spec.vocab_size, hidden}});
  for (std::int32_t i = 0; i < spec.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    norm(layer + std::string(kInputNorm), hidden);
    for (const LinearKind kind : {LinearKind::kQ, LinearKind::kK, LinearKind::kV}) add_linear(out, spec, i, kind);
    if (spec.qk_norm) norm(layer + std::string(kQNorm), spec.head_dim), norm(layer + std::string(kKNorm), spec.head_dim);
    add_linear(out, spec, i, LinearKind::kO);
    if (spec.branch_norms) norm(layer + std::string(kAttendedNorm), hidden);
    norm(layer + std::string(feed_forward_norm_name(spec)), hidden);
    for (const LinearKind kind : {LinearKind::kGate, LinearKind::kUp, LinearKind::kDown}) add_linear(out, spec, i, kind);
    if (spec.branch_norms) norm(layer + std::string(kFedNorm), hidden);
  }
  norm("model.norm", hidden);
  if (!spec.tie_word_embeddings) out.push_back({"lm_head.weight", {spec.vocab_size, hidden}});
  return out;
}

}  // namespace quire::model
