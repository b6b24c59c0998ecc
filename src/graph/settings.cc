#include "graph/settings.h"


namespace quire::graph {
namespace {

using Severity = config::Adjustment::Severity;

constexpr const char* kModeFlag = "--compilation-config";
constexpr const char* kSizesFlag = "--cudagraph-capture-sizes";

// A mode of which some graphs have no size is the mode without them, said aloud.
void settle_without_sizes(GraphSettings& settings) {
  GraphMode runs = settings.mode;
  if (has_own_decode_graphs(runs) && settings.buckets.decode_sizes().empty()) runs = needs_pieces(runs) ? GraphMode::kPiecewise : GraphMode::kNone;
  if (settings.buckets.sizes().empty()) runs = GraphMode::kNone;
  if (runs == settings.mode) return;
  const std::string missing =
      settings.buckets.sizes().empty() ? "there is no graph size" : "no graph size fits a batch of decode rows within --max-num-seqs";
  settings.notes.push_back({Severity::kWarning, kModeFlag,
                            "cudagraph_mode " + std::string(graph_mode_name(settings.mode)) + " runs as " + graph_mode_name(runs) + ": " + missing});
  settings.mode = runs;
  if (runs == GraphMode::kNone) settings.buckets = BucketSet();
}

}  // namespace

Result<GraphSettings> graph_settings(const config::GraphRequest& request, const GraphFacts& facts) {
  ModeRequest wanted{.enforce_eager = facts.enforce_eager,
                     .attention = facts.attention,
                     .can_split_at_attention = facts.can_split_at_attention,
                     .decode_query_len = facts.decode_query_len};
  if (!request.mode.empty()) {
    const auto mode = parse_graph_mode(request.mode, kModeFlag);
    if (!mode.ok()) return mode.error();
    wanted.asked = mode.value();
  }
  const auto resolved = resolve_graph_mode(wanted);
  if (!resolved.ok()) return resolved.error();
  GraphSettings out{.mode = resolved->mode};
  for (const ModeChange& change : resolved->changes)
    out.notes.push_back({change.severity == ModeChange::Severity::kWarning ? Severity::kWarning : Severity::kInfo, kModeFlag, change.text});

  auto buckets = choose_buckets({.sizes = request.capture_sizes,
                                 .max_size = request.max_capture_size,
                                 .mode = out.mode,
                                 .decode_query_len = facts.decode_query_len,
                                 .max_num_seqs = facts.max_num_seqs,
                                 .max_num_batched_tokens = facts.max_num_batched_tokens});
  if (!buckets.ok()) return buckets.error();
  for (std::string& note : buckets->notes) out.notes.push_back({Severity::kWarning, kSizesFlag, std::move(note)});
  out.buckets = std::move(buckets->set);
  settle_without_sizes(out);
  return out;
}

}  // namespace quire::graph
