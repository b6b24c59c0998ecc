#include "commands/kv_scales.h"

#include <algorithm>

namespace quire::commands {
namespace {

Result<model::ScaleLedger> read_ledger(const std::string& model_dir, const model::ModelSpec& spec, const model::ScaleQuestion& question) {
  if (spec.gguf) return model::make_scale_ledger({}, spec, question);  // such files hold none
  const auto checkpoint = model::Checkpoint::open(model_dir);
  if (!checkpoint.ok()) return checkpoint.error();
  return model::make_scale_ledger(checkpoint->tensors(), spec, question);
}

model::CheckpointWeights weights_of(const model::QuantSpec& quant) { return quant.any_fp8_weight() && !quant.on_load ? model::CheckpointWeights::kFp8 : model::CheckpointWeights::k16Bit; }

}  // namespace

Result<model::ScaleLedger> run_ledger(const config::ResolvedConfig& c) {
  const model::ScaleQuestion question{.kv_dtype = c.engine.kv_dtype, .scheme = c.model.quant.kv, .weights = weights_of(c.model.quant), .partial = c.engine.relaxed_kv_scales ? model::PartialScales::kRelaxed : model::PartialScales::kRefused, .calculate = c.engine.calculate_kv_scales};
  if (c.engine.load_format == config::LoadFormat::kDummy) return model::make_scale_ledger({}, c.model, question);
  return read_ledger(c.engine.model_dir, c.model, question);
}

Result<std::unique_ptr<model::WeightSource>> open_run_weights(const config::ResolvedConfig& c, const model::ScaleLedger& ledger) {
  if (c.engine.load_format == config::LoadFormat::kDummy) return model::dummy_weights(c.model, c.engine.seed);
  return model::open_checkpoint_weights(c.engine.model_dir, c.model, {c.engine.relaxed_unused_tensors ? model::UnusedTensors::kRelaxed : model::UnusedTensors::kRefused, ledger.tensors});
}

Result<model::ScaleLedger> explained_ledger(const LedgerQuestion& q) {
  const auto spec = model::read_model_spec(q.model_dir);
  if (!spec.ok()) return spec.error();
  const auto dtype = std::ranges::find(kDTypes, std::optional(q.kv_format), kv::kv_format_of);
  if (dtype == std::end(kDTypes))
    return Error{ErrorCode::kUnsupported, "--kv-cache-dtype " + q.options.text("kv-cache-dtype") + ": no scale ledger for this format; allowed: auto, fp8, fp8_e4m3, fp8_e5m2, float16, bfloat16", "--kv-cache-dtype"};
  const auto relaxed = q.options.list("relaxed");
  const auto partial = std::ranges::find(relaxed, "kv-scales") == relaxed.end() ? model::PartialScales::kRefused : model::PartialScales::kRelaxed;
  const model::ScaleQuestion question{.kv_dtype = *dtype, .scheme = spec->quant.kv, .weights = weights_of(spec->quant), .partial = partial, .calculate = q.options.boolean("calculate-kv-scales")};
  if (q.options.text("load-format") == "dummy") return model::make_scale_ledger({}, spec.value(), question);
  return read_ledger(q.model_dir, spec.value(), question);
}

std::string ledger_text(const model::ScaleLedger& ledger) {
  std::string out = model::scale_ledger_text(ledger);
  for (const std::string& text : ledger.warnings()) out += "warning    " + text + "\n";
  return out;
}

}  // namespace quire::commands
