#include "graph/mode.h"

#include <algorithm>

#include "base/check.h"
#include "base/suggest.h"
#include "base/text.h"

namespace quire::graph {
namespace {

// What was asked for, fit for one line of a log: printable and short, however hostile.
std::string shown(std::string_view text) {
  constexpr std::size_t kMaxShown = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kMaxShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kMaxShown ? "...'" : "'");
}

}  // namespace

const char* graph_support_name(GraphSupport support) {
  switch (support) {
    case GraphSupport::kNever: return "NEVER";
    case GraphSupport::kUniformSingleTokenDecode: return "UNIFORM_SINGLE_TOKEN_DECODE";
    case GraphSupport::kUniformBatch: return "UNIFORM_BATCH";
    case GraphSupport::kAlways: return "ALWAYS";
  }
  return "?";
}

const char* graph_mode_name(GraphMode mode) {
  switch (mode) {
    case GraphMode::kNone: return "NONE";
    case GraphMode::kPiecewise: return "PIECEWISE";
    case GraphMode::kFull: return "FULL";
    case GraphMode::kFullDecodeOnly: return "FULL_DECODE_ONLY";
    case GraphMode::kFullAndPiecewise: return "FULL_AND_PIECEWISE";
  }
  return "?";
}

const char* runtime_mode_name(RuntimeMode mode) {
  switch (mode) {
    case RuntimeMode::kNone: return "NONE";
    case RuntimeMode::kPiecewise: return "PIECEWISE";
    case RuntimeMode::kFull: return "FULL";
  }
  return "?";
}

Result<GraphMode> parse_graph_mode(std::string_view text, std::string_view param) {
  const std::string name = upper(text);
  std::vector<std::string_view> names;
  for (const GraphMode mode : kGraphModes) {
    names.emplace_back(graph_mode_name(mode));
    if (name == names.back()) return mode;
  }
  std::string listed;
  for (const std::string_view one : names) listed += (listed.empty() ? "" : ", ") + std::string(one);
  // The hint looks at no more of a hostile text than the longest name could need.
  return invalid("cudagraph_mode " + shown(text) + " must be one of " + listed + did_you_mean(std::string_view(name).substr(0, 64), names),
                 std::string(param));
}

RuntimeMode decode_half(GraphMode mode) {
  switch (mode) {
    case GraphMode::kNone: return RuntimeMode::kNone;
    case GraphMode::kPiecewise: return RuntimeMode::kPiecewise;
    case GraphMode::kFull:
    case GraphMode::kFullDecodeOnly:
    case GraphMode::kFullAndPiecewise: return RuntimeMode::kFull;
  }
  return RuntimeMode::kNone;
}

RuntimeMode mixed_half(GraphMode mode) {
  switch (mode) {
    case GraphMode::kNone:
    case GraphMode::kFullDecodeOnly: return RuntimeMode::kNone;
    case GraphMode::kPiecewise:
    case GraphMode::kFullAndPiecewise: return RuntimeMode::kPiecewise;
    case GraphMode::kFull: return RuntimeMode::kFull;
  }
  return RuntimeMode::kNone;
}

bool has_own_decode_graphs(GraphMode mode) { return mode == GraphMode::kFullDecodeOnly || mode == GraphMode::kFullAndPiecewise; }
bool has_full_graphs(GraphMode mode) { return decode_half(mode) == RuntimeMode::kFull; }
bool needs_pieces(GraphMode mode) { return mixed_half(mode) == RuntimeMode::kPiecewise; }

BackendSupport weakest_support(const std::vector<BackendSupport>& layers) {
  QUIRE_CHECK(!layers.empty()) << "a model without attention layers has no graph support to ask for";
  return *std::min_element(layers.begin(), layers.end(), [](const BackendSupport& a, const BackendSupport& b) { return a.support < b.support; });
}

}  // namespace quire::graph
