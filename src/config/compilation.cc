#include "config/compilation.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
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
    const FlagRow& row = flag("cudagraph-capture-sizes");
    const IntRange range = int_range(row.allowed);
    if (!value.is_array()) return wrong("cudagraph_capture_sizes", value, "a list of batch sizes, each " + allowed_text(row));
    for (const auto& item : value.get_array()) {
      if (!item.is_int64() || item.get_int64() < range.lo || item.get_int64() > range.hi)
        return wrong("cudagraph_capture_sizes", item, "a batch size, " + allowed_text(row));
      request_.capture_sizes.push_back(static_cast<std::int32_t>(item.get_int64()));
    }
  }
  void take_count(std::string_view key, const json::value& value) {
    if (value.is_null()) return;
    const FlagRow& row = flag("max-cudagraph-capture-size");
    const IntRange range = int_range(row.allowed);
    if (!value.is_int64() || value.get_int64() < range.lo || value.get_int64() > range.hi) return wrong(key, value, allowed_text(row));
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

void assign_flag(Options& options, const FlagUse& use, std::vector<std::string> values, Problems& problems) {
  if (use.row.name == "compilation-config" && values.size() == 1) {
    const auto level = parse_integer(values.front());
    if (level) return options.assign_json(use, json::object{{"level", *level}});
  }
  options.assign(use, std::move(values), problems);
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

}  // namespace quire::config
