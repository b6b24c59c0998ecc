#include "graph/dispatch.h"

#include <algorithm>

#include "base/check.h"

namespace quire::graph {
namespace {

// Padding adds tokens, and the rows that those tokens could at most belong to.
GraphKey mixed_full_key(std::int32_t size, const BucketSet& buckets) {
  return {.mode = RuntimeMode::kFull, .num_tokens = size, .num_rows = std::min(size, buckets.max_num_seqs())};
}
GraphKey pieces_key(std::int32_t size) { return {.mode = RuntimeMode::kPiecewise, .num_tokens = size}; }
GraphKey decode_key(std::int32_t size, const BucketSet& buckets) {
  return {.mode = RuntimeMode::kFull, .num_tokens = size, .num_rows = size / buckets.decode_query_len(), .uniform = true};
}

EagerReason reason_for_eager(const BatchDescriptor& batch, GraphMode mode, const BucketSet& buckets, FullGraphs full) {
  if (mode == GraphMode::kNone) return EagerReason::kModeNone;
  if (mode == GraphMode::kFullDecodeOnly && !batch.uniform) return EagerReason::kMixedBatch;
  const std::int32_t size = mode == GraphMode::kFullDecodeOnly ? buckets.padded_decode(batch.num_tokens) : buckets.padded(batch.num_tokens);
  if (size != 0 && full == FullGraphs::kForbidden) return EagerReason::kFullNotAllowed;
  return EagerReason::kTooLarge;
}

}  // namespace

BatchDescriptor describe_batch(std::int32_t num_tokens, std::int32_t num_rows, std::int32_t max_query_len, std::int32_t decode_query_len) {
  const bool uniform = max_query_len == decode_query_len && num_tokens == std::int64_t{num_rows} * max_query_len;
  return {.num_tokens = num_tokens, .num_rows = num_rows, .uniform = uniform};
}

std::string GraphKey::describe() const {
  std::string out = std::string(runtime_mode_name(mode)) + " " + std::to_string(num_tokens) + (num_tokens == 1 ? " token" : " tokens");
  if (num_rows > 0) out += " " + std::to_string(num_rows) + (num_rows == 1 ? " row" : " rows");
  return out + (uniform ? " uniform" : "");
}

GraphChoice choose_graph(const BatchDescriptor& batch, GraphMode mode, const BucketSet& buckets, FullGraphs full) {
  QUIRE_CHECK(batch.num_rows >= 1 && batch.num_rows <= batch.num_tokens) << batch.num_rows << " rows of " << batch.num_tokens << " tokens";
  QUIRE_CHECK(buckets.max_num_seqs() == 0 || batch.num_rows <= buckets.max_num_seqs())
      << batch.num_rows << " rows, at most " << buckets.max_num_seqs();
  if (full == FullGraphs::kAllowed) {
    if (has_own_decode_graphs(mode) && batch.uniform) {
      if (const std::int32_t size = buckets.padded_decode(batch.num_tokens)) return {.key = decode_key(size, buckets)};
    }
    if (mixed_half(mode) == RuntimeMode::kFull) {
      if (const std::int32_t size = buckets.padded(batch.num_tokens)) return {.key = mixed_full_key(size, buckets)};
    }
  }
  if (needs_pieces(mode)) {
    if (const std::int32_t size = buckets.padded(batch.num_tokens)) return {.key = pieces_key(size)};
  }
  return {.key = {.num_tokens = batch.num_tokens, .num_rows = batch.num_rows, .uniform = batch.uniform},
          .eager = reason_for_eager(batch, mode, buckets, full)};
}

std::string eager_text(const GraphChoice& choice, const BatchDescriptor& batch, GraphMode mode, const BucketSet& buckets) {
  const std::string name = graph_mode_name(mode);
  switch (choice.eager) {
    case EagerReason::kHasGraph: return "";
    case EagerReason::kModeNone: return "eager because the graph mode is NONE";
    case EagerReason::kMixedBatch:
      return "eager because " + name + " has graphs for decode batches only, and " + std::to_string(batch.num_tokens) + " tokens in " +
             std::to_string(batch.num_rows) + (batch.num_rows == 1 ? " row are none" : " rows are none");
    case EagerReason::kTooLarge: {
      const std::int32_t largest = mode == GraphMode::kFullDecodeOnly ? buckets.max_decode_size() : buckets.max_size();
      return "eager because " + std::to_string(batch.num_tokens) + " tokens are more than the largest graph's " + std::to_string(largest);
    }
    case EagerReason::kFullNotAllowed: return "eager because this step's attention cannot be inside a graph and " + name + " has no pieces";
  }
  return "";
}

std::vector<GraphKey> keys_to_record(GraphMode mode, const BucketSet& buckets) {
  std::vector<GraphKey> keys;
  const auto sizes = buckets.sizes();
  if (mixed_half(mode) != RuntimeMode::kNone) {
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size)
      keys.push_back(mixed_half(mode) == RuntimeMode::kFull ? mixed_full_key(*size, buckets) : pieces_key(*size));
  }
  const auto decode = buckets.decode_sizes();
  if (has_own_decode_graphs(mode)) {
    for (auto size = decode.rbegin(); size != decode.rend(); ++size) keys.push_back(decode_key(*size, buckets));
  }
  return keys;
}

}  // namespace quire::graph
