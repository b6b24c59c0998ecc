// The table of modes against support. Order matters and is vLLM's: what cannot be split, then mixed batches, then decode batches.
#include "base/check.h"
#include "graph/mode.h"

namespace quire::graph {
namespace {

using Severity = ModeChange::Severity;

std::string asked_name(GraphMode mode) { return "cudagraph_mode " + std::string(graph_mode_name(mode)); }

class Resolver {
 public:
  explicit Resolver(const ModeRequest& request) : request_(request) { out_.mode = request.asked.value_or(kDefaultGraphMode); }

  Result<ResolvedMode> resolve() && {
    if (out_.mode == GraphMode::kNone) return std::move(out_);
    if (request_.enforce_eager) {
      change(GraphMode::kNone, "--enforce-eager runs every batch without graphs", request_.asked ? Severity::kWarning : Severity::kInfo);
      return std::move(out_);
    }
    if (out_.mode == GraphMode::kFull && support() == GraphSupport::kNever) return refusal();
    split_mixed_batches();
    record_mixed_batches();
    record_decode_batches();
    QUIRE_CHECK(!has_full_graphs(out_.mode) || support() != GraphSupport::kNever) << graph_mode_name(out_.mode);
    return std::move(out_);
  }

 private:
  [[nodiscard]] GraphSupport support() const { return request_.attention.support; }
  [[nodiscard]] std::string backend_level() const {
    return "attention backend " + request_.attention.name + " has graph support " + graph_support_name(support());
  }
  void change(GraphMode to, const std::string& why, Severity severity = Severity::kWarning) {
    out_.changes.push_back({severity, out_.mode, to, asked_name(out_.mode) + " runs as " + graph_mode_name(to) + ": " + why});
    out_.mode = to;
  }

  [[nodiscard]] Error refusal() const {
    const std::string hint =
        request_.can_split_at_attention ? "ask for PIECEWISE, which keeps attention between graphs, or for NONE" : "ask for NONE";
    return Error{ErrorCode::kUnsupported, asked_name(GraphMode::kFull) + ": " + backend_level() + ", so it cannot be part of a graph; " + hint,
                 "--compilation-config"};
  }

  // Pieces end where attention begins; a forward pass that cannot stop there has none.
  void split_mixed_batches() {
    if (!needs_pieces(out_.mode) || request_.can_split_at_attention) return;
    const std::string why = "this forward pass cannot be split at attention";
    if (out_.mode == GraphMode::kPiecewise) return change(GraphMode::kNone, why);
    if (support() == GraphSupport::kNever) return change(GraphMode::kNone, why + " and " + backend_level());
    if (support() == GraphSupport::kAlways) return change(GraphMode::kFull, why + "; " + backend_level() + ", so mixed batches run as one graph too");
    change(GraphMode::kFullDecodeOnly, why + "; " + backend_level() + ", so mixed batches run without graphs");
  }

  void record_mixed_batches() {
    if (mixed_half(out_.mode) != RuntimeMode::kFull || support() == GraphSupport::kAlways) return;
    const std::string why = backend_level() + ", which leaves out mixed batches";
    if (request_.can_split_at_attention) return change(GraphMode::kFullAndPiecewise, why + "; they run in pieces between attention calls");
    change(GraphMode::kFullDecodeOnly, why + "; they run without graphs");
  }

  void record_decode_batches() {
    if (!has_full_graphs(out_.mode)) return;
    const GraphMode without_full = request_.can_split_at_attention ? GraphMode::kPiecewise : GraphMode::kNone;
    if (support() == GraphSupport::kNever) return change(without_full, backend_level() + ", so it cannot be part of a graph");
    if (request_.decode_query_len > 1 && support() < GraphSupport::kUniformBatch) {
      change(without_full, backend_level() + ", and decode rows have " + std::to_string(request_.decode_query_len) + " tokens");
    }
  }

  const ModeRequest& request_;
  ResolvedMode out_;
};

}  // namespace

Result<ResolvedMode> resolve_graph_mode(const ModeRequest& request) {
  QUIRE_CHECK(request.decode_query_len >= 1) << "decode rows have " << request.decode_query_len << " tokens";
  return Resolver(request).resolve();
}

}  // namespace quire::graph
