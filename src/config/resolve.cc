#include "config/resolve.h"

#include <algorithm>

#include "config/attention_flags.h"
#include "config/compilation.h"
#include "config/quantization_flag.h"
#include "config/resolve_parts.h"
#include "model/checkpoint.h"
#include "model/kv_scales.h"
#include "model/kv_scales.h"

namespace quire::config {
namespace {

using Severity = Adjustment::Severity;

void resolve_dtypes(Resolution& r) {
  const Options& options = r.in.options;
  const DType checkpoint = r.in.model.dtype;
  EngineSettings& engine = r.out.engine;
  engine.dtype = parse_dtype(options.text("dtype")).value_or(checkpoint);
  if (r.in.model.gguf && r.in.model.gguf->quantised) {
    // note_gguf() says what becomes of which matrix.
  } else if (engine.dtype != checkpoint) {
    r.note(Severity::kInfo, "--dtype", std::string("weights are converted from ") + dtype_name(checkpoint) + " to " + dtype_name(engine.dtype));
  } else if (options.text("dtype") == "auto" && checkpoint == DType::kF32) {
    r.note(Severity::kInfo, "--dtype", "auto: a float32 checkpoint stays float32 on a CPU (a GPU would take 16 bit)");
  }
  engine.fp8_fnuz = r.in.environment.fp8_fnuz;
  const std::string cache = options.text("kv-cache-dtype");
  const auto& declared = r.in.model.quant.kv;
  engine.kv_dtype = kv_cache_dtype(cache, engine.dtype, engine.fp8_fnuz ? DType::kFp8E4m3Fnuz : DType::kFp8E4m3, declared ? DeclaredCache::kFp8 : DeclaredCache::kNone);
  if (cache == "auto" && declared) r.note(Severity::kInfo, "--kv-cache-dtype", std::string("auto: ") + dtype_name(engine.kv_dtype) + ", which the checkpoint declares (" + declared->declared_by + ")");
}

void resolve_kv_scales(Resolution& r) {
  EngineSettings& engine = r.out.engine;
  engine.k_scale_constant = r.in.environment.k_scale_constant.value_or(engine.k_scale_constant);
  engine.v_scale_constant = r.in.environment.v_scale_constant.value_or(engine.v_scale_constant);
  if (!r.in.options.boolean("calculate-kv-scales")) return;
  const std::string unused = model::calculation_without_effect(engine.kv_dtype);
  engine.calculate_kv_scales = unused.empty();
  if (!unused.empty()) r.note(Severity::kWarning, "--calculate-kv-scales", "has no effect: " + unused);
}

void resolve_weights(Resolution& r) {
  auto quant = resolve_quantization(r.in.options, r.in.model, r.out.adjustments);
  if (quant.ok())
    r.out.model.quant = std::move(quant).value();
  else
    r.problems.add(quant.error());
}

// What becomes of a GGUF file's quantised matrices. Needs the quantisation that runs.
void resolve_gguf(Resolution& r) {
  EngineSettings& engine = r.out.engine;
  const bool dequantised = r.in.options.text("gguf-weights") == "dequantised" || r.in.options.text("load-format") == "dummy";
  engine.gguf_weights = dequantised ? model::GgufWeights::kDequantised : model::GgufWeights::kBlocks;
  if (!r.in.model.gguf || !r.in.model.gguf->quantised) return;
  const std::string dtype = dtype_name(engine.dtype);
  const model::KeptBlocks blocks = model::kept_blocks(r.out.model, engine.gguf_weights);
  if (blocks.kept.empty()) return r.note(Severity::kInfo, "--dtype", (r.in.options.text("dtype") == "auto" ? "auto: " : "") + dtype + ", which the matrices of the GGUF file (" + r.in.model.gguf->matrices + ") become while loading");
  r.note(Severity::kInfo, "--gguf-weights", blocks.kept + " matrices stay in their blocks, whose inputs are quantised to int8; every other matrix is " + dtype);
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, blocks.dequantised.size()); ++i) r.note(Severity::kInfo, "--gguf-weights", blocks.dequantised[i] + ": becomes " + dtype + " while loading");
  if (blocks.dequantised.size() > kMost) r.note(Severity::kInfo, "--gguf-weights", "and " + std::to_string(blocks.dequantised.size() - kMost) + " more become " + dtype + " for the same reason");
}

void resolve_load_format(Resolution& r) {
  const std::string format = r.in.options.text("load-format");
  const bool gguf = r.in.model.gguf.has_value();
  if ((format == "gguf" && !gguf) || (format == "safetensors" && gguf))
    r.problems.add("--load-format", r.in.options.spelling("load-format") + " " + format + ": MODEL is " + (gguf ? "a GGUF file" : "no GGUF file") + "; allowed: auto, " + (gguf ? "gguf" : "safetensors") + ", dummy");
  r.out.engine.load_format = format == "dummy" ? LoadFormat::kDummy : format == "safetensors" ? LoadFormat::kSafetensors : format == "gguf" ? LoadFormat::kGguf : LoadFormat::kAuto;
}

void resolve_engine(Resolution& r) {
  const Options& options = r.in.options;
  EngineSettings& engine = r.out.engine;
  engine.model_arg = options.model();
  engine.model_dir = r.in.folders.model_dir;
  engine.tokenizer_dir = r.in.folders.tokenizer_dir;
  resolve_load_format(r);
  engine.relaxed = options.list("relaxed");
  const auto relaxed = [&](const char* name) { return std::find(engine.relaxed.begin(), engine.relaxed.end(), name) != engine.relaxed.end(); };
  engine.relaxed_unused_tensors = relaxed("unused-tensors");
  engine.relaxed_self_check = relaxed("self-check");
  engine.relaxed_kv_scales = relaxed("kv-scales");
  for (const std::string& name : engine.relaxed) r.note(Severity::kWarning, "--relaxed", name + ": a refusal of this name becomes a warning");
  engine.seed = static_cast<std::uint64_t>(number_of(options, "seed"));
  engine.attention_backend = attention_choice(options, r.in.environment, r.out.adjustments, r.problems);
  engine.graph = graph_request(options, r.out.adjustments, r.problems);
  engine.enforce_eager = options.boolean("enforce-eager");
  engine.cpu_isa = r.in.environment.cpu_isa;
  engine.max_logprobs = count_of(options, "max-logprobs");
  engine.max_queue = count_of(options, "max-queue");
  engine.request_timeout_seconds = options.number("request-timeout").value_or(0);
  const auto threads = options.integer("num-threads");
  engine.num_threads = threads ? static_cast<std::int32_t>(*threads) : r.in.environment.num_threads.value_or(std::max(r.in.machine.num_cores, 1));
  if (engine.num_threads > r.in.machine.num_cores) {
    r.note(Severity::kWarning, "--num-threads",
           std::to_string(engine.num_threads) + " threads on " + std::to_string(r.in.machine.num_cores) + " cores");
  }
}

}  // namespace

DType kv_cache_dtype(const std::string& asked, DType model, DType e4m3, DeclaredCache declared) {
  if (asked == "fp8" || asked == "fp8_e4m3" || (asked == "auto" && declared == DeclaredCache::kFp8)) return e4m3;
  if (asked == "fp8_e5m2") return DType::kFp8E5m2;
  return parse_dtype(asked).value_or(model);
}

Result<ModelFolders> locate_model(const Options& options) {
  Problems problems;
  ModelFolders folders;
  auto model_dir = model::resolve_model_dir(options.model(), options.text("revision"));
  if (model_dir.ok())
    folders.model_dir = model_dir.value();
  else
    problems.add(Error{model_dir.error().code, "MODEL: " + model_dir.error().message, "MODEL"});
  folders.tokenizer_dir = folders.model_dir;
  if (const auto tokenizer = options.given_text("tokenizer")) {
    auto dir = model::resolve_model_dir(*tokenizer, options.text("tokenizer-revision"));
    if (dir.ok())
      folders.tokenizer_dir = dir.value();
    else
      problems.add(Error{dir.error().code, "--tokenizer: " + dir.error().message, "--tokenizer"});
  }
  const std::string source = options.text("generation-config");
  if (source == "auto") {
    folders.generation_config_dir = folders.model_dir;
  } else if (source != "vllm") {
    auto dir = model::resolve_model_dir(source, "main");
    if (dir.ok())
      folders.generation_config_dir = dir.value();
    else
      problems.add(Error{dir.error().code, "--generation-config: must be auto, vllm or a folder: " + dir.error().message, "--generation-config"});
  }
  if (!problems.empty()) return problems.to_error();
  return folders;
}

Result<ResolvedConfig> resolve(const ResolveInputs& inputs) {
  Resolution r{.in = inputs, .out = {}, .problems = {}};
  r.out.model = inputs.model;
  r.out.adjustments = inputs.environment.notes;
  r.out.adjustments.insert(r.out.adjustments.end(), inputs.options.notes().begin(), inputs.options.notes().end());
  resolve_dtypes(r);
  resolve_kv_scales(r);
  resolve_weights(r);
  resolve_gguf(r);
  resolve_engine(r);
  resolve_capacity(r);
  resolve_service(r);
  r.out.non_default_args = inputs.options.non_default_args();
  if (!r.problems.empty()) return r.problems.to_error();
  return std::move(r.out);
}

}  // namespace quire::config
