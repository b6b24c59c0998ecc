// Which graph one batch runs, or why none. Pure values; called once a step, so it allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/buckets.h"
#include "graph/mode.h"

namespace quire::graph {

// The batch as it comes. 1 <= num_rows <= num_tokens, and num_rows <= the buckets' max_num_seqs.
struct BatchDescriptor {
  std::int32_t num_tokens = 0, num_rows = 0;
  bool uniform = false;  // every row has decode_query_len tokens
  friend bool operator==(const BatchDescriptor&, const BatchDescriptor&) = default;
};
// Uniform is a matter of shape alone: a prompt's single token is a decode row to every kernel, and runs as one.
[[nodiscard]] BatchDescriptor describe_batch(std::int32_t num_tokens, std::int32_t num_rows, std::int32_t max_query_len,
                                             std::int32_t decode_query_len);

// The batch as it runs: the identity of a recorded graph unless `mode` is kNone.
struct GraphKey {
  RuntimeMode mode = RuntimeMode::kNone;
  std::int32_t num_tokens = 0;  // padded
  std::int32_t num_rows = 0;    // padded; 0: any, because attention runs outside the graph with the batch's own rows
  bool uniform = false;         // recorded for uniform batches only
  friend bool operator==(const GraphKey&, const GraphKey&) = default;
  [[nodiscard]] std::string describe() const;  // "FULL 16 tokens 16 rows uniform"
};

enum class EagerReason : std::uint8_t {
  kHasGraph,        // not eager
  kModeNone,        // no graphs at all
  kMixedBatch,      // FULL_DECODE_ONLY, and the batch is not uniform
  kTooLarge,        // more tokens than the largest size
  kFullNotAllowed,  // this step's attention cannot be inside a graph and the mode has no pieces
};

struct GraphChoice {
  GraphKey key;
  EagerReason eager = EagerReason::kHasGraph;
  [[nodiscard]] bool has_graph() const { return eager == EagerReason::kHasGraph; }
};

// kForbidden: something in this step cannot be inside a whole graph; pieces still run.
enum class FullGraphs : std::uint8_t { kAllowed, kForbidden };

// First of: the decode graph of this shape, a whole graph of any batch, pieces, eager.
[[nodiscard]] GraphChoice choose_graph(const BatchDescriptor& batch, GraphMode mode, const BucketSet& buckets,
                                       FullGraphs full = FullGraphs::kAllowed);

// "eager because ..." in words, "" when the choice has a graph.
[[nodiscard]] std::string eager_text(const GraphChoice& choice, const BatchDescriptor& batch, GraphMode mode, const BucketSet& buckets);

// Every graph to record, in the order of recording: mixed ones before decode ones, largest first, so that one memory pool serves all.
// choose_graph returns no key outside this list.
[[nodiscard]] std::vector<GraphKey> keys_to_record(GraphMode mode, const BucketSet& buckets);

}  // namespace quire::graph

template <>
struct std::hash<quire::graph::GraphKey> {
  std::size_t operator()(const quire::graph::GraphKey& key) const noexcept {
    const std::uint64_t packed = static_cast<std::uint64_t>(key.num_tokens) << 32 | static_cast<std::uint64_t>(key.num_rows) << 3 |
                                 static_cast<std::uint64_t>(key.mode) << 1 | static_cast<std::uint64_t>(key.uniform);
    return std::hash<std::uint64_t>()(packed);
  }
};
