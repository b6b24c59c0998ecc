// Graph modes and graded graph support, in vLLM's words, and the one function that decides which mode runs. Pure values: this file
// must not know devices, backends' tables or the command line.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::graph {

// What may be inside a recorded graph. Ordered: each level includes the ones before (vLLM's AttentionCGSupport).
enum class GraphSupport : std::uint8_t { kNever, kUniformSingleTokenDecode, kUniformBatch, kAlways };
[[nodiscard]] const char* graph_support_name(GraphSupport support);  // "NEVER", "UNIFORM_SINGLE_TOKEN_DECODE", ...
inline constexpr std::array kGraphSupports{GraphSupport::kNever, GraphSupport::kUniformSingleTokenDecode, GraphSupport::kUniformBatch,
                                           GraphSupport::kAlways};

// What is asked for and what is resolved. A mode says what decode batches (every row the same query length) and all other batches
// ("mixed") run.
enum class GraphMode : std::uint8_t { kNone, kPiecewise, kFull, kFullDecodeOnly, kFullAndPiecewise };
inline constexpr std::array kGraphModes{GraphMode::kNone, GraphMode::kPiecewise, GraphMode::kFull, GraphMode::kFullDecodeOnly,
                                        GraphMode::kFullAndPiecewise};
inline constexpr GraphMode kDefaultGraphMode = GraphMode::kFullAndPiecewise;

// What one batch runs: eager, graphs between eager attention calls, or one graph of the whole forward pass. Ordered.
enum class RuntimeMode : std::uint8_t { kNone, kPiecewise, kFull };

[[nodiscard]] const char* graph_mode_name(GraphMode mode);      // "FULL_AND_PIECEWISE"
[[nodiscard]] const char* runtime_mode_name(RuntimeMode mode);  // "PIECEWISE"
// In any case ("full", "Full_Decode_Only"). An unknown name is an error with every valid name and the nearest one; `param` is the
// flag or field it concerns.
[[nodiscard]] Result<GraphMode> parse_graph_mode(std::string_view text, std::string_view param = "--compilation-config");

[[nodiscard]] RuntimeMode decode_half(GraphMode mode);
[[nodiscard]] RuntimeMode mixed_half(GraphMode mode);
// The decode half has graphs of its own, recorded for uniform batches; FULL uses one set for both halves.
[[nodiscard]] bool has_own_decode_graphs(GraphMode mode);
[[nodiscard]] bool has_full_graphs(GraphMode mode);
[[nodiscard]] bool needs_pieces(GraphMode mode);

// One attention backend's level; the model's level is the lowest of its layers', and messages name the backend that limits it.
struct BackendSupport {
  std::string name;  // "CPU_SPLIT"
  GraphSupport support = GraphSupport::kNever;
};
// The first of the lowest; `layers` is not empty.
[[nodiscard]] BackendSupport weakest_support(const std::vector<BackendSupport>& layers);

struct ModeRequest {
  std::optional<GraphMode> asked;  // nullopt: nothing asked for, kDefaultGraphMode
  bool enforce_eager = false;      // wins over every mode
  BackendSupport attention;
  bool can_split_at_attention = true;  // the forward pass can be recorded in pieces between attention calls
  std::int32_t decode_query_len = 1;   // query tokens of a decode row, >= 1: 1 + speculated tokens
};

struct ModeChange {
  enum class Severity : std::uint8_t { kInfo, kWarning } severity = Severity::kWarning;
  GraphMode from = GraphMode::kNone, to = GraphMode::kNone;
  std::string text;  // one sentence: from, to and why
};

struct ResolvedMode {
  GraphMode mode = GraphMode::kNone;
  std::vector<ModeChange> changes;  // in order; empty: the mode runs as asked
};

// The mode that runs. An explicit mode that the backend cannot do is lowered with a warning, as vLLM does; the one refusal is FULL
// with a backend that must never be inside a graph. Resolving a resolved mode again changes nothing.
[[nodiscard]] Result<ResolvedMode> resolve_graph_mode(const ModeRequest& request);

}  // namespace quire::graph
