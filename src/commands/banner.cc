#include "commands/banner.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "commands/memory_plan.h"
#include "config/print.h"

namespace quire::commands {
namespace {

using config::Adjustment;

constexpr std::size_t kLabelWidth = 11;

std::string n(std::int64_t value) { return std::to_string(value); }

using Lines = std::vector<BannerLine>;

std::string model_line(const config::ResolvedConfig& c) {
  const model::ModelSpec& m = c.model;
  return (c.api.served_names.empty() ? c.engine.model_arg : c.api.served_names.front()) + ": " + m.architecture + ", " + n(m.num_layers) + " layers, hidden " + n(m.hidden_size) + ", heads " +
         n(m.num_heads) + "/" + n(m.num_kv_heads) + " x " + n(m.head_dim) + ", vocabulary " + n(m.vocab_size);
}

std::string cache_line(const config::ResolvedConfig& c) {
  const SchedulerConfig& s = c.engine.scheduler;
  return std::string(dtype_name(c.engine.kv_dtype)) + ", " + n(s.num_blocks) + " blocks of " + n(s.block_size) + " tokens, " + mebibytes(static_cast<std::size_t>(c.engine.kv_cache_bytes)) +
         ", prefix caching " + (s.enable_prefix_caching ? "on" : "off");
}

std::string limits_line(const config::ResolvedConfig& c) {
  const SchedulerConfig& s = c.engine.scheduler;
  const std::int64_t per_request = ceil_div<std::int64_t>(s.max_model_len, s.block_size);
  char concurrency[32];
  std::snprintf(concurrency, sizeof(concurrency), "%.2fx", per_request > 0 ? static_cast<double>(s.num_blocks) / static_cast<double>(per_request) : 0.0);
  return n(s.max_model_len) + " tokens per request (maximum concurrency " + concurrency + "), step of " + n(s.max_num_batched_tokens) + " tokens and " + n(s.max_num_seqs) + " sequences, queue " +
         n(c.engine.max_queue);
}

// Why a row does not run, in short: the two first reasons. `quire explain` has them all.
std::string short_reason(const attention::Candidate& c) {
  constexpr std::size_t kShown = 2;
  if (c.reasons.empty()) return c.passed_over;
  std::string out;
  for (std::size_t i = 0; i < c.reasons.size() && i < kShown; ++i) out += (i == 0 ? "" : "; ") + c.reasons[i].to_string();
  if (c.reasons.size() > kShown) out += "; and " + n(static_cast<std::int64_t>(c.reasons.size() - kShown)) + " more (quire explain)";
  return out;
}

// "12 layers of window 512, 12 layers": the kinds in the order of their first layers.
std::string layer_kinds(const model::ModelSpec& spec) {
  std::vector<std::pair<model::LayerMask, std::int64_t>> kinds;
  for (std::int32_t layer = 0; layer < spec.num_layers; ++layer) {
    const model::LayerMask mask = spec.mask_of(layer);
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == mask; });
    if (known == kinds.end())
      kinds.emplace_back(mask, 1);
    else
      ++known->second;
  }
  std::string out;
  for (const auto& [mask, count] : kinds) {
    out += (out.empty() ? "" : ", ") + n(count) + (count == 1 ? " layer" : " layers");
    if (mask.window > 0) out += " of window " + n(mask.window);
    if (mask.chunk > 0) out += " of chunk " + n(mask.chunk);
    if (mask.soft_cap > 0) out += " with soft cap";
  }
  return out;
}

void add_attention(const model::ModelSpec& spec, const attention::Selection& s, Lines& out) {
  const auto name = [](const attention::BackendCaps* row) { return std::string(row->name); };
  out.emplace_back("attention", layer_kinds(spec) + ": decode " + name(s.set.decode) + ", extend " + name(s.set.extend) + ", prefill " + name(s.set.prefill) + "; chosen by " +
                                     (s.chosen_by.empty() ? "the table's order" : s.chosen_by));
  for (const attention::Candidate& c : s.candidates)
    if (c.row != s.set.decode && c.row != s.set.extend && c.row != s.set.prefill) out.emplace_back("", "not " + name(c.row) + ": " + short_reason(c));
}

// "1, 2, 4, 8, 16, ... 248, 256 (35)": all of a short list, both ends of a long one.
std::string sizes_text(std::span<const std::int32_t> sizes) {
  constexpr std::size_t kHead = 5, kTail = 2;
  std::string out;
  const bool cut = sizes.size() > kHead + kTail + 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (cut && i == kHead) out += ", ...";
    if (cut && i >= kHead && i + kTail < sizes.size()) continue;
    out += (out.empty() ? "" : cut && i + kTail == sizes.size() ? " " : ", ") + n(sizes[i]);
  }
  return out + (cut ? " (" + n(static_cast<std::int64_t>(sizes.size())) + ")" : "");
}

std::string graphs_line(const graph::GraphSettings& g) {
  std::string out = graph::graph_mode_name(g.mode);
  if (!g.buckets.sizes().empty()) out += ", sizes " + sizes_text(g.buckets.sizes());
  if (!g.buckets.decode_sizes().empty()) out += ", decode sizes " + sizes_text(g.buckets.decode_sizes());
  return out;
}

std::string server_line(const config::HttpSettings& h) {
  const std::string address = h.uds.empty() ? (h.host.empty() ? "all interfaces" : h.host) + ", port " + (h.port == 0 ? "any free" : n(h.port)) : "unix:" + h.uds;
  return address + ", " + (h.api_keys.empty() ? "no API key" : n(static_cast<std::int64_t>(h.api_keys.size())) + (h.api_keys.size() == 1 ? " API key" : " API keys"));
}

BannerLine adjustment_line(const Adjustment& a) { return {a.severity == Adjustment::Severity::kWarning ? "warning" : "note", a.flag + " " + a.text}; }

}  // namespace

std::vector<BannerLine> banner_lines(const BannerInputs& in) {
  const config::ResolvedConfig& c = in.config;
  const config::EngineSettings& e = c.engine;
  const SchedulerConfig& s = e.scheduler;
  Lines out;
  out.emplace_back("quire", std::string(in.version));
  out.emplace_back("device", in.device.family + ": " + in.device.name + ", " + n(e.num_threads) + " threads, kernels for " + std::string(in.instruction_set));
  out.emplace_back("model", model_line(c));
  out.emplace_back("weights", std::string(dtype_name(e.dtype)) + " (checkpoint " + dtype_name(c.model.dtype) + "), load format " + config::load_format_name(e.load_format));
  if (const auto kept = model::kept_blocks(c.model, e.gguf_weights).kept; !kept.empty()) out.emplace_back("", "in blocks of the GGUF file: " + kept);
  if (c.model.quant.method != model::QuantMethod::kNone) out.emplace_back("", "quantised by " + c.model.quant.summary());
  out.emplace_back("KV cache", cache_line(c));
  out.emplace_back("limits", limits_line(c));
  out.emplace_back("scheduler", std::string(s.policy == SchedulingPolicy::kPriority ? "priority" : "fcfs") + ", chunked prefill " + (s.enable_chunked_prefill ? "on" : "off") + ", steps in flight " + n(s.depth));
  add_attention(c.model, in.setup.selection, out);
  out.emplace_back("graphs", graphs_line(in.setup.graphs));
  if (in.server == BannerInputs::Server::kListens) out.emplace_back("server", server_line(c.http));
  for (const std::string& name : e.relaxed) out.emplace_back("RELAXED", name);
  std::string arguments;
  for (const auto& [name, value] : c.non_default_args) arguments += (arguments.empty() ? "" : " ") + name + "=" + value;
  if (!arguments.empty()) out.emplace_back("arguments", arguments);
  for (const attention::Fallback& f : in.setup.selection.fallbacks) out.emplace_back("warning", "attention " + f.to + " instead of " + f.from + ": " + f.why);
  for (const Adjustment& a : c.adjustments) out.push_back(adjustment_line(a));
  for (const Adjustment& a : in.setup.graphs.notes) out.push_back(adjustment_line(a));
  return out;
}

std::string banner(const BannerInputs& in) {
  std::string out;
  for (const BannerLine& line : banner_lines(in)) {
    std::string label = line.label;
    label.resize(std::max(label.size() + 1, kLabelWidth), ' ');
    out += label + line.text + "\n";
  }
  return out;
}

}  // namespace quire::commands
