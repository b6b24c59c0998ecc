#include "config/compilation.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "attention/capability.h"
#include "base/json.h"
#include "base/suggest.h"
#include "config/values.h"
#include "graph/mode.h"

namespace quire::config {
namespace {

namespace json = boost::json;
using Severity = Adjustment::Severity;

constexpr std::string_view kNoCompiler = "kernels are compiled ahead of time; there is no compiler at run time";
constexpr std::string_view kOneForward = "there is one forward pass, split only where a graph mode needs it";

constexpr CompilationKey kKeys[] = {
    {"cudagraph_mode", Fate::kHonoured, "NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE"},
    {"cudagraph_capture_sizes", Fate::kHonoured, "batch sizes with a graph"},
    {"max_cudagraph_capture_size", Fate::kHonoured, "largest batch with a graph"},
    {"max_capture_size", Fate::kHonoured, "older form of max_cudagraph_capture_size"},
    {"full_cuda_graph", Fate::kHonoured, "older form: true requests cudagraph_mode FULL"},
    {"use_cudagraph", Fate::kHonoured, "older form: false requests cudagraph_mode NONE, true PIECEWISE"},
    {"cudagraph_num_of_warmups", Fate::kNoEffect, "kernels are compiled ahead of time; recording runs nothing"},
    {"level", Fate::kHonoured, "0: no graphs; other levels have no effect: kernels are compiled ahead of time"},
    {"mode", Fate::kHonoured, "newer name of level"},
    {"cudagraph_copy_inputs", Fate::kNoEffect, "every graph input lives in a fixed buffer"},
    {"cudagraph_specialize_lora", Fate::kNoEffect, "there are no adapters"},
    {"backend", Fate::kNoEffect, kNoCompiler},
    {"custom_ops", Fate::kNoEffect, kNoCompiler},
    {"splitting_ops", Fate::kNoEffect, kOneForward},
    {"pass_config", Fate::kNoEffect, "fusions are fixed in the operations' signatures"},
    {"use_inductor", Fate::kNoEffect, kNoCompiler},
    {"use_inductor_graph_partition", Fate::kNoEffect, kNoCompiler},
    {"compile_sizes", Fate::kNoEffect, kNoCompiler},
    {"compile_ranges_split_points", Fate::kNoEffect, kNoCompiler},
    {"compile_ranges_endpoints", Fate::kNoEffect, kNoCompiler},
    {"inductor_compile_config", Fate::kNoEffect, kNoCompiler},
    {"inductor_passes", Fate::kNoEffect, kNoCompiler},
    {"dynamic_shapes_config", Fate::kNoEffect, kNoCompiler},
    {"compile_mm_encoder", Fate::kNoEffect, kNoCompiler},
    {"fast_moe_cold_start", Fate::kNoEffect, kNoCompiler},
    {"cache_dir", Fate::kNoEffect, kNoCompiler},
    {"local_cache_dir", Fate::kNoEffect, kNoCompiler},
    {"debug_dump_path", Fate::kNoEffect, kNoCompiler},
};

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

// Reads one --compilation-config object into a GraphRequest.
class CompilationReader {
 public:
  CompilationReader(std::string flag, GraphRequest& request, std::vector<Adjustment>& notes, Problems& problems)
      : flag_(std::move(flag)), request_(request), notes_(notes), problems_(problems) {}

  void read(const json::object& config) {
    if (config.size() == 1 && config.contains("compilation_config") && config.at("compilation_config") == "FULL") {
      // A well-known mistake that older servers ignored without a word; the default stands there too.
      warn("{\"compilation_config\":\"FULL\"} sets nothing; for full graphs write {\"cudagraph_mode\":\"FULL\"}; the default mode stands");
      return;
    }
    for (const auto& [key, value] : config) take(key, value);
  }

 private:
  void warn(std::string text) { notes_.push_back({Severity::kWarning, flag_, std::move(text)}); }
  void wrong(std::string_view key, const json::value& value, std::string_view want) {
    problems_.add("--compilation-config",
                  flag_ + " key " + std::string(key) + ": " + quote_value(json::serialize(value)) + " must be " + std::string(want));
  }
  void request_mode(std::string_view key, std::string mode) {
    if (!mode_key_.empty()) {
      problems_.add("--compilation-config", flag_ + ": " + mode_key_ + " and " + std::string(key) + " exclude each other; keep cudagraph_mode");
      return;
    }
    mode_key_ = std::string(key);
    request_.mode = std::move(mode);
  }
  void take(std::string_view key, const json::value& value) {
    const auto row = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const CompilationKey& k) { return k.name == key; });
    if (key == "compilation_config") {  // what its authors mean is never the nearest spelling
      problems_.add("--compilation-config", flag_ + ": unknown key 'compilation_config' (did you mean 'cudagraph_mode'?)");
    } else if (row == std::end(kKeys)) {
      std::vector<std::string_view> names;
      for (const CompilationKey& k : kKeys) names.push_back(k.name);
      problems_.add("--compilation-config", flag_ + ": unknown key " + quote_value(key) + did_you_mean(key, names));
    } else if (row->fate == Fate::kNoEffect) {
      warn("key " + std::string(key) + " has no effect: " + std::string(row->text));
    } else if (key == "cudagraph_mode") {
      take_mode(value);
    } else if (key == "full_cuda_graph" || key == "use_cudagraph") {
      take_old_switch(key, value);
    } else if (key == "level" || key == "mode") {
      take_level(key, value);
    } else if (key == "cudagraph_capture_sizes") {
      take_sizes(value);
    } else {
      take_count(key, value);
    }
  }
  void take_mode(const json::value& value) {
    if (value.is_null()) return;
    if (value.is_int64() && value.get_int64() >= 0 && value.get_int64() <= 2)
      return request_mode("cudagraph_mode", graph::graph_mode_name(graph::kGraphModes[static_cast<std::size_t>(value.get_int64())]));
    const std::string text = value.is_string() ? upper(std::string_view(value.get_string())) : "";
    if (const auto mode = graph::parse_graph_mode(text); mode.ok()) return request_mode("cudagraph_mode", graph::graph_mode_name(mode.value()));
    std::string names;
    std::vector<std::string_view> candidates;
    for (const graph::GraphMode mode : graph::kGraphModes) {
      candidates.emplace_back(graph::graph_mode_name(mode));
      names += (names.empty() ? "" : ", ") + std::string(candidates.back());
    }
    wrong("cudagraph_mode", value, "one of " + names + did_you_mean(text, candidates));
  }
  void take_old_switch(std::string_view key, const json::value& value) {
    if (!value.is_bool()) return wrong(key, value, "true or false");
    const bool full = key == "full_cuda_graph";
    if (full && !value.get_bool()) return warn("key full_cuda_graph is an older form; false is the default");
    const std::string mode = full ? "FULL" : value.get_bool() ? "PIECEWISE" : "NONE";
    warn("key " + std::string(key) + " is an older form; read as cudagraph_mode " + mode);
    request_mode(key, mode);
  }
  void take_level(std::string_view key, const json::value& value) {
    static constexpr std::string_view kLevels[] = {"NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"};
    std::int64_t level = -1;
    if (value.is_int64()) level = value.get_int64();
    if (value.is_string())
      level = std::find(std::begin(kLevels), std::end(kLevels), upper(std::string_view(value.get_string()))) - std::begin(kLevels);
    if (level < 0 || level > 3) return wrong(key, value, "a level from 0 to 3, or one of NONE, STOCK_TORCH_COMPILE, DYNAMO_TRACE_ONCE, VLLM_COMPILE");
    if (level > 0)
      return warn("level " + std::to_string(level) + " has no effect: " + std::string(kNoCompiler) + "; graphs are chosen by cudagraph_mode");
    if (request_.mode.empty()) request_.mode = "NONE";
  }
  void take_sizes(const json::value& value) {
    if (!value.is_array()) return wrong("cudagraph_capture_sizes", value, "a list of batch sizes from 1 to 65536");
    for (const auto& item : value.get_array()) {
      if (!item.is_int64() || item.get_int64() < 1 || item.get_int64() > 65536)
        return wrong("cudagraph_capture_sizes", item, "a batch size from 1 to 65536");
      request_.capture_sizes.push_back(static_cast<std::int32_t>(item.get_int64()));
    }
  }
  void take_count(std::string_view key, const json::value& value) {
    if (value.is_null()) return;
    if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > 65536) return wrong(key, value, "an integer from 0 to 65536");
    request_.max_capture_size = static_cast<std::int32_t>(value.get_int64());
  }

  std::string flag_;
  GraphRequest& request_;
  std::vector<Adjustment>& notes_;
  Problems& problems_;
  std::string mode_key_;
};

// The flag that named sizes: a flag of its own, or else the JSON one.
std::string size_flag(const Options& options, const std::string& json_flag) {
  for (const char* name : {"cudagraph-capture-sizes", "max-cudagraph-capture-size"}) {
    if (options.given(name)) return options.spelling(name);
  }
  return json_flag;
}

// --cudagraph-capture-sizes and --max-cudagraph-capture-size, which exclude the JSON keys of the same meaning.
void take_size_flags(const Options& options, GraphRequest& request, Problems& problems) {
  if (options.given("cudagraph-capture-sizes")) {
    if (!request.capture_sizes.empty())
      problems.add("--cudagraph-capture-sizes",
                   "--cudagraph-capture-sizes and --compilation-config.cudagraph_capture_sizes exclude each other; keep one");
    for (const std::int64_t size : options.integers("cudagraph-capture-sizes")) request.capture_sizes.push_back(static_cast<std::int32_t>(size));
  }
  if (options.given("max-cudagraph-capture-size")) {
    if (request.max_capture_size)
      problems.add("--max-cudagraph-capture-size",
                   "--max-cudagraph-capture-size and --compilation-config.max_cudagraph_capture_size exclude each other; keep one");
    request.max_capture_size = static_cast<std::int32_t>(options.integer("max-cudagraph-capture-size").value_or(0));
  }
  std::sort(request.capture_sizes.begin(), request.capture_sizes.end());
  request.capture_sizes.erase(std::unique(request.capture_sizes.begin(), request.capture_sizes.end()), request.capture_sizes.end());
}

struct ForeignBackend {
  std::string_view name, why;
};
constexpr std::string_view kNeedsCuda = "needs a CUDA device";
constexpr std::string_view kNeedsHip = "needs a ROCm device";
constexpr std::string_view kNeedsMla = "needs a GPU and a model with latent attention";
constexpr std::string_view kNeedsTriton = "needs a GPU and a kernel compiler at run time";
constexpr ForeignBackend kForeign[] = {
    {"FLASH_ATTN", kNeedsCuda},
    {"FLASH_ATTN_VLLM_V1", kNeedsCuda},
    {"FLASHINFER", kNeedsCuda},
    {"FLASHINFER_VLLM_V1", kNeedsCuda},
    {"XFORMERS", kNeedsCuda},
    {"XFORMERS_VLLM_V1", kNeedsCuda},
    {"TRITON_ATTN", kNeedsTriton},
    {"TRITON_ATTN_VLLM_V1", kNeedsTriton},
    {"FLEX_ATTENTION", kNeedsTriton},
    {"TREE_ATTN", kNeedsTriton},
    {"ROCM_ATTN", kNeedsHip},
    {"ROCM_FLASH", kNeedsHip},
    {"ROCM_AITER_FA", kNeedsHip},
    {"ROCM_AITER_UNIFIED_ATTN", kNeedsHip},
    {"ROCM_AITER_MLA", kNeedsMla},
    {"ROCM_AITER_MLA_SPARSE", kNeedsMla},
    {"ROCM_AITER_TRITON_MLA", kNeedsMla},
    {"TRITON_MLA", kNeedsMla},
    {"FLASHMLA", kNeedsMla},
    {"FLASHMLA_SPARSE", kNeedsMla},
    {"FLASH_ATTN_MLA", kNeedsMla},
    {"FLASHINFER_MLA", kNeedsMla},
    {"CUTLASS_MLA", kNeedsMla},
    {"TORCH_SDPA", "is PyTorch's"},
    {"CPU_ATTN", "is another engine's"},
};

AttentionBackendChoice backend_by_name(const std::string& spelling, std::string_view value, Problems& problems) {
  const std::string name = upper(value);
  if (name == "AUTO") return AttentionBackendChoice::kAuto;
  if (name == "CPU_UNIFIED") return AttentionBackendChoice::kCpuUnified;
  if (name == "CPU_SPLIT") return AttentionBackendChoice::kCpuSplit;
  for (const ForeignBackend& foreign : kForeign) {
    if (foreign.name != name) continue;
    problems.add(
        Error{ErrorCode::kUnsupported,
              spelling + " " + name + ": not on this device (cpu): it " + std::string(foreign.why) + "; this device has CPU_UNIFIED and CPU_SPLIT",
              "--attention-backend"});
    return AttentionBackendChoice::kAuto;
  }
  const attention::BackendCaps* row = attention::find_backend(name);
  if (row != nullptr) {
    problems.add(Error{ErrorCode::kUnsupported, spelling + " " + name + ": not built yet, and not for this device (cpu); this device has CPU_UNIFIED and CPU_SPLIT", "--attention-backend"});
    return AttentionBackendChoice::kAuto;
  }
  std::vector<std::string_view> names{"AUTO", "CPU_UNIFIED", "CPU_SPLIT"};
  for (const ForeignBackend& foreign : kForeign) names.push_back(foreign.name);
  problems.add("--attention-backend",
               spelling + " " + quote_value(value) + ": unknown backend; this device has CPU_UNIFIED and CPU_SPLIT" + did_you_mean(name, names));
  return AttentionBackendChoice::kAuto;
}

constexpr std::string_view kAttentionKeys[] = {"backend",
                                               "flash_attn_version",
                                               "use_prefill_decode_attention",
                                               "flash_attn_max_num_splits_for_cuda_graph",
                                               "use_cudnn_prefill",
                                               "use_trtllm_attention",
                                               "disable_flashinfer_prefill",
                                               "disable_flashinfer_q_quantization",
                                               "use_prefill_query_quantization",
                                               "use_trtllm_ragged_deepseek_prefill"};

}  // namespace

std::span<const CompilationKey> compilation_keys() { return kKeys; }

json::value json_scalar(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (text == "null") return nullptr;
  constexpr JsonLimits kLimits{.max_bytes = 1u << 20, .max_depth = 16};
  const bool structured = text.starts_with('{') || text.starts_with('[');
  const bool numeric = !text.empty() && (text.front() == '-' || (text.front() >= '0' && text.front() <= '9'));
  if (structured || numeric) {
    if (auto parsed = parse_json(text, kLimits); parsed.ok()) return std::move(parsed).value();
  }
  return json::string(text);
}

void assign_flag(Options& options, const FlagRow& row, std::string_view spelling, std::vector<std::string> values, Source source,
                 Problems& problems) {
  if (row.name == "compilation-config" && values.size() == 1) {
    const auto level = parse_integer(values.front());
    if (level) return options.assign_json(row, spelling, json::object{{"level", *level}}, source);
  }
  options.assign(row, spelling, std::move(values), source, problems);
}

GraphRequest graph_request(const Options& options, std::vector<Adjustment>& notes, Problems& problems) {
  GraphRequest request;
  const std::string flag = options.spelling("compilation-config");
  CompilationReader(flag, request, notes, problems).read(options.json("compilation-config"));
  if (options.given("optimization-level")) {
    const auto level = options.integer("optimization-level").value_or(0);
    if (level == 0 && request.mode.empty()) request.mode = "NONE";
    if (level > 0)
      notes.push_back({Severity::kWarning, options.spelling("optimization-level"),
                       "level " + std::to_string(level) + " has no effect: " + std::string(kNoCompiler) + "; graphs are chosen by cudagraph_mode"});
  }
  const bool wants_graphs = !request.mode.empty() && request.mode != "NONE";
  if (options.boolean("enforce-eager")) {
    if (wants_graphs) notes.push_back({Severity::kWarning, "--enforce-eager", "wins over cudagraph_mode " + request.mode + ": no graphs"});
    request.mode = "NONE";
    return request;
  }
  take_size_flags(options, request, problems);
  if (request.max_capture_size && !request.capture_sizes.empty() && request.capture_sizes.back() != *request.max_capture_size) {
    problems.add("--max-cudagraph-capture-size", size_flag(options, flag) + ": the largest graph size " + std::to_string(*request.max_capture_size) +
                                                     " contradicts the listed sizes, whose largest is " +
                                                     std::to_string(request.capture_sizes.back()));
  }
  return request;
}

std::optional<NamedBackend> attention_name(const Options& options, std::vector<Adjustment>& notes, Problems& problems) {
  const json::object& config = options.json("attention-config");
  const std::string flag = options.spelling("attention-config");
  std::optional<std::string> from_config;
  for (const auto& [key, value] : config) {
    if (key == "backend") {
      if (value.is_string())
        from_config = std::string(value.get_string());
      else if (!value.is_null())
        problems.add("--attention-config", flag + " key backend: " + quote_value(json::serialize(value)) + " must be the name of a backend");
    } else if (std::find(std::begin(kAttentionKeys), std::end(kAttentionKeys), std::string_view(key)) != std::end(kAttentionKeys)) {
      notes.push_back({Severity::kWarning, flag, "key " + std::string(key) + " has no effect: it tunes a GPU backend"});
    } else {
      problems.add("--attention-config", flag + ": unknown key " + quote_value(key) + did_you_mean(key, kAttentionKeys));
    }
  }
  const auto direct = options.given_text("attention-backend");
  if (direct && from_config) {
    problems.add("--attention-backend", "--attention-backend and --attention-config.backend exclude each other; keep one");
    return std::nullopt;
  }
  if (direct) return NamedBackend{options.spelling("attention-backend"), *direct};
  if (from_config) return NamedBackend{flag + " backend", *from_config};
  return std::nullopt;
}

AttentionBackendChoice attention_choice(const Options& options, const Environment& environment, std::vector<Adjustment>& notes, Problems& problems) {
  const auto named = attention_name(options, notes, problems);
  if (named && environment.attention_backend) notes.push_back({Severity::kInfo, "VLLM_ATTENTION_BACKEND", "is not read: " + named->spelling + " wins"});
  if (named) return backend_by_name(named->spelling, named->name, problems);
  if (environment.attention_backend) return backend_by_name("VLLM_ATTENTION_BACKEND", *environment.attention_backend, problems);
  return AttentionBackendChoice::kAuto;
}

}  // namespace quire::config
