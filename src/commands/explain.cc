#include "commands/explain.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/suggest.h"
#include "base/text.h"
#include "commands/console.h"
#include "commands/kv_scales.h"
#include "config/attention_flags.h"
#include "config/compilation.h"
#include "config/quantization_flag.h"
#include "config/resolve.h"
#include "graph/mode.h"
#include "model/kv_scales_json.h"

namespace quire::commands {
namespace {

using Severity = config::Adjustment::Severity;

struct NamedMask {
  std::string_view word;
  attention::Mask mask;
};
constexpr NamedMask kMaskWords[] = {{"sliding-window", attention::Mask::kSlidingWindow},
                                    {"chunked-local", attention::Mask::kChunkedLocal},
                                    {"alibi", attention::Mask::kAlibi},
                                    {"soft-cap", attention::Mask::kSoftCap},
                                    {"sinks", attention::Mask::kSinks}};

Result<const attention::DeviceFamily*> device_named(const std::string& asked) {
  const std::string name = asked.empty() || asked == "auto" ? std::string(attention::kServedFamily) : asked;
  if (const attention::DeviceFamily* found = attention::find_device_family(name)) return found;
  std::vector<std::string_view> names;
  std::string all;
  for (const attention::DeviceFamily& f : attention::device_families()) {
    names.push_back(f.name);
    all += (all.empty() ? "" : ", ") + std::string(f.name);
  }
  return invalid("--device " + config::quote_value(name) + ": must be one of " + all + did_you_mean(name, names), "--device");
}

// One run of make_explanation().
class Explainer {
 public:
  explicit Explainer(const ExplainInputs& inputs) : in_(inputs), options_(inputs.options) {}

  Result<Explanation> run() {
    const auto device = device_named(in_.device);
    if (!device.ok()) return device.error();
    out_.device = device.value();
    out_.model = options_.model();
    auto environment = config::read_environment(in_.variables);
    if (!environment.ok()) return environment.error();
    const bool fnuz = environment->fp8_fnuz && out_.device->stores(kv::KvFormat::kFp8E4m3Fnuz);
    e4m3_ = fnuz ? kv::KvFormat::kFp8E4m3Fnuz : out_.device->e4m3();
    ask();
    attention::SelectRequest request = request_from(environment.value());
    const config::GraphRequest graph = graph_asked();
    out_.graph_mode = graph.mode;
    if (!problems_.empty()) return problems_.to_error();
    auto selection = attention::negotiate(out_.problem, out_.device->name, request);
    if (!selection.ok()) return selection.error();
    out_.selection = std::move(selection).value();
    if (!out_.selection.set.empty()) resolve_graphs(graph.mode);
    for (const Error& e : options_.not_built()) out_.not_built.push_back(e.message);
    read_quantization();
    if (!in_.facts.serve_refusal.empty()) out_.not_built.push_back("MODEL: " + in_.facts.serve_refusal);
    if (out_.device->platform != attention::Platform::kCpu) out_.not_built.push_back("device " + std::string(out_.device->name) + ": this program runs models on a CPU only");
    check_length(environment.value());
    notes(environment.value());
    return std::move(out_);
  }

 private:
  void ask() {
    const ModelFacts& f = in_.facts;
    attention::AttnProblem& q = out_.problem;
    const auto number = [&](const char* flag, std::int64_t otherwise) { return static_cast<std::int32_t>(std::min<std::int64_t>(options_.integer(flag).value_or(otherwise), INT32_MAX)); };
    q.num_heads = number("num-heads", f.num_heads);
    q.num_kv_heads = number("num-kv-heads", f.num_kv_heads);
    q.head_dim = number("head-size", f.head_dim);
    q.block_size = number("block-size", 16);
    q.num_ranks = number("tensor-parallel-size", 1);
    q.max_context = options_.integer("max-model-len").value_or(f.limit.tokens);
    q.query_dtype = query_dtype();
    q.kv_format = kv_format(q.query_dtype);
    if (q.kv_format == kv::KvFormat::kOther) q.kv_format_asked = options_.text("kv-cache-dtype");
    q.masks = f.masks;
    std::vector<std::string_view> words;
    for (const NamedMask& m : kMaskWords) words.push_back(m.word);
    for (const std::string& word : options_.list("masks")) {
      const auto found = std::find(words.begin(), words.end(), word);
      if (found == words.end())
        problems_.add("--masks", "--masks " + config::quote_value(word) + ": must be sliding-window, chunked-local, alibi, soft-cap or sinks" + did_you_mean(word, words));
      else
        q.masks.add(kMaskWords[found - words.begin()].mask);
    }
  }
  [[nodiscard]] DType query_dtype() const {
    if (const auto given = parse_dtype(options_.text("dtype"))) return *given;
    const bool gpu = out_.device->platform != attention::Platform::kCpu;
    return gpu && in_.facts.dtype == DType::kF32 ? DType::kBF16 : in_.facts.dtype;
  }
  [[nodiscard]] kv::KvFormat kv_format(DType dtype) const {
    const std::string asked = options_.text("kv-cache-dtype");
    if (asked == "fp8" || asked == "fp8_e4m3" || (asked == "auto" && in_.facts.fp8_kv)) return e4m3_;
    if (asked == "fp8_e5m2") return kv::KvFormat::kFp8E5m2;
    const auto type = asked == "auto" ? std::optional(dtype) : parse_dtype(asked);
    return type.has_value() ? kv::kv_format_of(*type).value_or(kv::KvFormat::kOther) : kv::KvFormat::kOther;
  }
  attention::SelectRequest request_from(const config::Environment& env) {
    attention::SelectRequest request{.unbuilt = attention::Unbuilt::kTakesPart};
    if (const auto named = config::attention_name(options_, out_.notes, problems_)) {
      request.backend = named->name;
      request.backend_source = named->spelling;
    } else if (env.attention_backend.has_value()) {
      request.backend = env.attention_backend;
      request.backend_source = "VLLM_ATTENTION_BACKEND";
    }
    asked_name_ = upper(request.backend.value_or(""));
    if (env.rocm_aiter == false || env.rocm_aiter_mha == false) {
      request.fast_path = attention::FastPath::kOff;
    } else if (env.rocm_aiter == true || env.rocm_aiter_mha == true) {
      request.fast_path = attention::FastPath::kOn;
      if (env.rocm_aiter != true) request.fast_path_source = "VLLM_ROCM_USE_AITER_MHA";
    }
    return request;
  }
  void read_quantization() {
    const auto quant = config::resolve_quantization(options_, in_.facts.spec, out_.notes);
    out_.quantization = quant.ok() ? quant->summary() : in_.facts.spec.quant.summary();
    if (!quant.ok()) out_.not_built.push_back(quant.error().message);
    model::ModelSpec spec = in_.facts.spec;
    if (!spec.gguf || !spec.gguf->quantised || !quant.ok()) return;
    spec.quant = quant.value();
    const model::KeptBlocks blocks = model::kept_blocks(spec, options_.text("gguf-weights") == "dequantised" ? model::GgufWeights::kDequantised : model::GgufWeights::kBlocks);
    out_.quantization = "gguf: " + spec.gguf->matrices + (blocks.kept.empty() ? "; none in blocks" : "; in blocks: " + blocks.kept);
    for (const std::string& one : blocks.dequantised) out_.notes.push_back({Severity::kInfo, "--gguf-weights", one});
  }
  // Modes that are not built are marked; a key or value that no release has is an error.
  config::GraphRequest graph_asked() {
    config::Problems found;
    const config::GraphRequest graph = config::graph_request(options_, out_.notes, found);
    for (const Error& e : found.all()) {
      if (e.code == ErrorCode::kUnsupported)
        out_.not_built.push_back(e.message);
      else
        problems_.add(e);
    }
    return graph;
  }
  void check_length(const config::Environment& env) {
    config::Problems refused;
    config::check_model_len(options_, env, in_.facts.limit, out_.notes, refused);
    for (const Error& e : refused.all()) out_.not_built.push_back(e.message);
  }
  void resolve_graphs(const std::string& asked) {
    const attention::ClassSet& set = out_.selection.set;
    const auto of = [](const attention::BackendCaps* row) { return graph::BackendSupport{std::string(row->name), row->graph_support}; };
    graph::ModeRequest request{.asked = {}, .enforce_eager = options_.boolean("enforce-eager"), .attention = graph::weakest_support({of(set.decode), of(set.extend), of(set.prefill)})};
    if (const auto mode = graph::parse_graph_mode(asked); !asked.empty() && mode.ok()) request.asked = mode.value();
    const auto resolved = graph::resolve_graph_mode(request);
    if (!resolved.ok()) {
      out_.graph_changes.push_back(resolved.error().message);
      return;
    }
    out_.graph_runs = graph::graph_mode_name(resolved->mode);
    for (const graph::ModeChange& c : resolved->changes) out_.graph_changes.push_back(c.text);
  }
  // Device variables and the fast path's have their say in the selection, so what `serve` on a CPU says of them does not hold.
  void notes(const config::Environment& env) {
    const bool rocm = attention::is_rocm(out_.device->platform), cpu = out_.device->platform == attention::Platform::kCpu;
    for (const config::Adjustment& n : env.notes) {
      if (!cpu && n.flag.ends_with("_VISIBLE_DEVICES")) continue;
      if (rocm && (n.flag == "VLLM_ROCM_USE_AITER" || n.flag == "VLLM_ROCM_USE_AITER_MHA")) continue;
      if (rocm && n.flag.starts_with("VLLM_ROCM_"))
        out_.notes.push_back({n.severity, n.flag, "has no effect: no row of the table depends on it"});
      else
        out_.notes.push_back(n);
    }
    const attention::BackendCaps* asked = out_.selection.asked;
    const std::string& by = out_.selection.chosen_by;
    if (env.attention_backend.has_value() && !by.empty() && by != "VLLM_ATTENTION_BACKEND") out_.notes.push_back({Severity::kInfo, "VLLM_ATTENTION_BACKEND", "is not read: " + by + " wins"});
    for (const auto& [variable, value] : {std::pair("VLLM_ROCM_USE_AITER", env.rocm_aiter), std::pair("VLLM_ROCM_USE_AITER_MHA", env.rocm_aiter_mha)}) {
      if (!rocm || !value.has_value()) continue;
      if (asked != nullptr && !by.starts_with("VLLM_ROCM_"))
        out_.notes.push_back({Severity::kInfo, variable, "is not read: " + by + " wins"});
      else if (!*value)
        out_.notes.push_back({Severity::kInfo, variable, "switches the opt-in path off"});
    }
    if (asked != nullptr && !asked->alias.empty() && request_by_alias(*asked)) out_.notes.push_back({Severity::kInfo, out_.selection.chosen_by, "stands for " + std::string(asked->name) + ", the path that vLLM calls " + std::string(asked->alias)});
    for (const config::Adjustment& n : options_.notes())
      if (cpu || n.flag != "--gpu-memory-utilization") out_.notes.push_back(n);  // a GPU has memory to share
  }

  // Chosen by a variable, or by vLLM's name of the row.
  [[nodiscard]] bool request_by_alias(const attention::BackendCaps& asked) const { return asked_name_ != asked.name; }

  const ExplainInputs& in_;
  const config::Options& options_;
  Explanation out_;
  config::Problems problems_;
  kv::KvFormat e4m3_ = kv::KvFormat::kFp8E4m3;
  std::string asked_name_;  // in capitals; "": no name was given
};

constexpr std::string_view kCommand = "explain";

int explain_scales(const config::Options& options, const std::string& model_dir, const Explanation& e) {
  const auto ledger = explained_ledger({model_dir, e.problem.kv_format, options});
  if (!ledger.ok()) return report_error(kCommand, ledger.error());
  if (!options.boolean("json")) return print_answer(kCommand, "model      " + e.model + "\ndevice     " + std::string(e.device->name) + "\n" + ledger_text(ledger.value()));
  boost::json::object document{{"model", e.model}, {"device", e.device->name}};
  for (auto& [key, value] : model::scale_ledger_json(ledger.value())) document[key] = value;
  return print_answer(kCommand, boost::json::serialize(document) + "\n");
}

}  // namespace

bool Explanation::runnable() const {
  return !selection.set.empty() && not_built.empty() && selection.set.decode->built == attention::Built::kYes && selection.set.extend->built == attention::Built::kYes &&
         selection.set.prefill->built == attention::Built::kYes;
}

Result<Explanation> make_explanation(const ExplainInputs& inputs) { return Explainer(inputs).run(); }

int explain(const config::ExplainCommand& command) {
  const auto folders = config::locate_model(command.options);
  if (!folders.ok()) return report_error(kCommand, folders.error());
  auto facts = read_model_facts(folders->model_dir, folders->tokenizer_dir);
  if (!facts.ok()) return report_error(kCommand, facts.error());
  const auto explanation = make_explanation({command.options, command.device, config::process_variables(), std::move(facts).value()});
  if (!explanation.ok()) return report_error(kCommand, explanation.error());
  if (command.options.boolean("scales")) return explain_scales(command.options, folders->model_dir, explanation.value());
  return print_answer(kCommand, command.options.boolean("json") ? boost::json::serialize(explanation_json(explanation.value())) + "\n" : explanation_text(explanation.value()));
}

}  // namespace quire::commands
