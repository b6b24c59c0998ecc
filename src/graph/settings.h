// Everything about graphs that a run needs, from what was asked for and what the selected backend can do. Reads resolved
// configuration values; must not know flags' spelling rules or devices.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "config/resolved.h"
#include "graph/buckets.h"
#include "graph/mode.h"

namespace quire::graph {

// What the run brings along: the selected backend and the scheduler's limits.
struct GraphFacts {
  BackendSupport attention;
  bool can_split_at_attention = true;
  std::int32_t decode_query_len = 1;
  std::int32_t max_num_seqs = 1, max_num_batched_tokens = 1;  // >= 1
  bool enforce_eager = false;
};

struct GraphSettings {
  GraphMode mode = GraphMode::kNone;    // what runs
  BucketSet buckets;                    // empty exactly when mode is NONE
  std::vector<config::Adjustment> notes;
};

// Errors: an unknown mode, FULL with a backend that must never be inside a graph, and sizes that contradict each other.
[[nodiscard]] Result<GraphSettings> graph_settings(const config::GraphRequest& request, const GraphFacts& facts);

}  // namespace quire::graph
