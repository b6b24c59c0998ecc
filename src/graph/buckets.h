// The padded sizes that have graphs, and the lookup from a batch to its size. Pure values: must not know devices or the command line.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/mode.h"

namespace quire::graph {

inline constexpr std::int32_t kMaxCaptureSize = 65536;     // tokens; the largest size that may be asked for
inline constexpr std::int32_t kDerivedCaptureLimit = 512;  // tokens; the largest derived size

// Sorted, distinct sizes in tokens. `padded` and `padded_decode` are one array access each.
class BucketSet {
 public:
  BucketSet() = default;  // no graphs
  // Both lists rise strictly within 1..kMaxCaptureSize; decode sizes are multiples of decode_query_len, of at most max_num_seqs rows.
  BucketSet(std::vector<std::int32_t> sizes, std::vector<std::int32_t> decode_sizes, std::int32_t decode_query_len, std::int32_t max_num_seqs);

  // Sizes of any batch; and those of batches whose rows all have decode_query_len tokens.
  [[nodiscard]] std::span<const std::int32_t> sizes() const { return sizes_; }
  [[nodiscard]] std::span<const std::int32_t> decode_sizes() const { return decode_sizes_; }
  [[nodiscard]] std::int32_t max_size() const { return sizes_.empty() ? 0 : sizes_.back(); }
  [[nodiscard]] std::int32_t max_decode_size() const { return decode_sizes_.empty() ? 0 : decode_sizes_.back(); }
  [[nodiscard]] std::int32_t decode_query_len() const { return decode_query_len_; }
  [[nodiscard]] std::int32_t max_num_seqs() const { return max_num_seqs_; }

  // The smallest size that holds num_tokens; 0 when none does (or num_tokens < 1).
  [[nodiscard]] std::int32_t padded(std::int32_t num_tokens) const { return look_up(padded_, num_tokens); }
  [[nodiscard]] std::int32_t padded_decode(std::int32_t num_tokens) const { return look_up(padded_decode_, num_tokens); }

 private:
  static std::int32_t look_up(const std::vector<std::int32_t>& table, std::int32_t num_tokens) {
    return num_tokens < 1 || static_cast<std::size_t>(num_tokens) >= table.size() ? 0 : table[static_cast<std::size_t>(num_tokens)];
  }

  std::vector<std::int32_t> sizes_, decode_sizes_;
  std::vector<std::int32_t> padded_, padded_decode_;  // [n]: the smallest size >= n
  std::int32_t decode_query_len_ = 1, max_num_seqs_ = 0;
};

struct BucketRequest {
  std::vector<std::int32_t> sizes;                            // asked for, in any order; empty: derived
  std::optional<std::int32_t> max_size;                       // asked for; 0: no graphs; nullopt: derived
  GraphMode mode = GraphMode::kNone;                          // resolved
  std::int32_t decode_query_len = 1;                          // >= 1
  std::int32_t max_num_seqs = 1, max_num_batched_tokens = 1;  // >= 1
};

struct Buckets {
  BucketSet set;
  std::vector<std::string> notes;  // each difference from what was asked, one sentence that names the flag
};

// Sizes as vLLM derives or cleans them. Errors: a size outside 1..kMaxCaptureSize, a largest size that contradicts the listed ones, and
// whole-graph decode with no size left for its rows. Mode NONE has no sizes.
[[nodiscard]] Result<Buckets> choose_buckets(const BucketRequest& request);

}  // namespace quire::graph
