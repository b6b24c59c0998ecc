#include "graph/buckets.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace quire::graph {
namespace {

constexpr const char* kSizesFlag = "--cudagraph-capture-sizes";
constexpr const char* kMaxFlag = "--max-cudagraph-capture-size";

using Sizes = std::vector<std::int32_t>;

void sort_distinct(Sizes& sizes) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

std::string listed(const Sizes& sizes) {
  std::string out;
  for (const std::int32_t size : sizes) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return out;
}

// Dense where one more row costs most, coarser where padding is cheap: 1, 2, 4, then steps of 8 below 256 and of 16 from there.
Sizes grid(std::int64_t limit) {
  Sizes sizes;
  for (const std::int32_t size : {1, 2, 4}) {
    if (size <= limit) sizes.push_back(size);
  }
  for (std::int32_t size = 8; size <= limit; size += size < 256 ? 8 : 16) sizes.push_back(size);
  return sizes;
}

std::vector<std::int32_t> padding_table(const Sizes& sizes) {
  std::vector<std::int32_t> table;
  if (sizes.empty()) return table;
  table.reserve(static_cast<std::size_t>(sizes.back()) + 1);
  table.push_back(0);
  for (const std::int32_t size : sizes) table.resize(static_cast<std::size_t>(size) + 1, size);
  return table;
}

class BucketChooser {
 public:
  explicit BucketChooser(const BucketRequest& request) : request_(request) {}

  Result<Buckets> choose() && {
    if (request_.mode == GraphMode::kNone) return std::move(out_);
    Sizes sizes;
    if (request_.sizes.empty()) {
      if (const auto wrong = out_of_range()) return *wrong;
      sizes = derive();
    } else {
      auto cleaned = clean_asked();
      if (!cleaned.ok()) return cleaned.error();
      sizes = std::move(cleaned).value();
    }
    if (sizes.empty()) return std::move(out_);
    Sizes decode = decode_sizes(sizes);
    if (has_full_graphs(request_.mode) && query_len() > 1 && decode.empty()) {
      return invalid(std::string(kSizesFlag) + ": no size holds a decode row of " + std::to_string(query_len()) + " tokens; list a multiple of " +
                         std::to_string(query_len()) + " within " + std::to_string(request_.max_num_batched_tokens),
                     kSizesFlag);
    }
    out_.set = BucketSet(std::move(sizes), std::move(decode), request_.decode_query_len, request_.max_num_seqs);
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::int64_t query_len() const { return request_.decode_query_len; }
  [[nodiscard]] std::int64_t most_decode_tokens() const { return std::int64_t{request_.max_num_seqs} * query_len(); }

  [[nodiscard]] std::optional<Error> out_of_range() const {
    if (!request_.max_size || (*request_.max_size >= 0 && *request_.max_size <= kMaxCaptureSize)) return std::nullopt;
    return invalid(std::string(kMaxFlag) + " " + std::to_string(*request_.max_size) + " must be within 0 to " + std::to_string(kMaxCaptureSize),
                   kMaxFlag);
  }

  [[nodiscard]] Sizes derive() {
    std::int64_t limit = std::min<std::int64_t>(most_decode_tokens() * 2, kDerivedCaptureLimit);
    if (request_.max_size) limit = *request_.max_size;
    if (limit > request_.max_num_batched_tokens) {
      limit = request_.max_num_batched_tokens;
      if (request_.max_size) {
        out_.notes.push_back(std::string(kMaxFlag) + " " + std::to_string(*request_.max_size) + " is cut to --max-num-batched-tokens " +
                             std::to_string(limit) + ": no batch is larger");
      }
    }
    if (request_.max_size && limit == 0) out_.notes.push_back(std::string(kMaxFlag) + " 0: no batch has a graph");
    Sizes sizes = grid(limit);
    if (request_.max_num_batched_tokens <= limit) sizes.push_back(request_.max_num_batched_tokens);
    if (query_len() > 1) {
      for (const std::int64_t rows : grid(std::min<std::int64_t>(request_.max_num_seqs, limit / query_len())))
        sizes.push_back(static_cast<std::int32_t>(rows * query_len()));
    }
    // An explicit largest size gets a graph although it is off the grid.
    if (request_.max_size && limit > 0) sizes.push_back(static_cast<std::int32_t>(limit));
    sort_distinct(sizes);
    limit_ = limit;
    return sizes;
  }

  [[nodiscard]] Result<Sizes> clean_asked() {
    if (const auto wrong = out_of_range()) return *wrong;
    for (const std::int32_t size : request_.sizes) {
      if (size >= 1 && size <= kMaxCaptureSize) continue;
      return invalid(std::string(kSizesFlag) + ": size " + std::to_string(size) + " must be within 1 to " + std::to_string(kMaxCaptureSize),
                     kSizesFlag);
    }
    Sizes sizes = request_.sizes;
    sort_distinct(sizes);
    if (sizes.size() < request_.sizes.size()) out_.notes.push_back(std::string(kSizesFlag) + ": repeated sizes count once");
    if (request_.max_size && *request_.max_size != sizes.back()) {
      return invalid(std::string(kMaxFlag) + " " + std::to_string(*request_.max_size) + " contradicts the listed sizes, whose largest is " +
                         std::to_string(sizes.back()) + "; leave one of the two out",
                     kMaxFlag);
    }
    const auto too_large = std::upper_bound(sizes.begin(), sizes.end(), request_.max_num_batched_tokens);
    if (too_large != sizes.end()) {
      const Sizes dropped(too_large, sizes.end());
      sizes.erase(too_large, sizes.end());
      out_.notes.push_back(std::string(kSizesFlag) + ": dropped " + listed(dropped) + ": no batch is larger than --max-num-batched-tokens " +
                           std::to_string(request_.max_num_batched_tokens) +
                           (sizes.empty() ? "; no size is left, so no batch has a graph" : "; the largest is now " + std::to_string(sizes.back())));
    }
    return sizes;
  }

  // Whole rows only: each size rounded up, as far as the largest size and the most rows allow. A derived list also ends at the most
  // rows, so that the fullest decode batch has a graph; a list by the user is left alone.
  [[nodiscard]] Sizes decode_sizes(const Sizes& sizes) const {
    const std::int64_t most = std::min<std::int64_t>(most_decode_tokens(), request_.sizes.empty() ? limit_ : sizes.back());
    Sizes decode;
    for (const std::int32_t size : sizes) {
      const std::int64_t rounded = (size + query_len() - 1) / query_len() * query_len();
      if (rounded <= most) decode.push_back(static_cast<std::int32_t>(rounded));
    }
    if (request_.sizes.empty() && most_decode_tokens() <= limit_) decode.push_back(static_cast<std::int32_t>(most_decode_tokens()));
    sort_distinct(decode);
    return decode;
  }

  const BucketRequest& request_;
  Buckets out_;
  std::int64_t limit_ = 0;  // tokens; ceiling of a derived list
};

}  // namespace

BucketSet::BucketSet(std::vector<std::int32_t> sizes, std::vector<std::int32_t> decode_sizes, std::int32_t decode_query_len,
                     std::int32_t max_num_seqs)
    : sizes_(std::move(sizes)), decode_sizes_(std::move(decode_sizes)), decode_query_len_(decode_query_len), max_num_seqs_(max_num_seqs) {
  QUIRE_CHECK(decode_query_len >= 1 && max_num_seqs >= 1) << decode_query_len << " tokens, " << max_num_seqs << " rows";
  for (const Sizes* list : {&sizes_, &decode_sizes_}) {
    QUIRE_CHECK(std::adjacent_find(list->begin(), list->end(), std::greater_equal<>()) == list->end()) << listed(*list);
    QUIRE_CHECK(list->empty() || (list->front() >= 1 && list->back() <= kMaxCaptureSize)) << listed(*list);
  }
  for (const std::int32_t size : decode_sizes_) {
    QUIRE_CHECK(size % decode_query_len == 0 && size / decode_query_len <= max_num_seqs) << "decode size " << size;
  }
  padded_ = padding_table(sizes_);
  padded_decode_ = padding_table(decode_sizes_);
}

Result<Buckets> choose_buckets(const BucketRequest& request) {
  QUIRE_CHECK(request.decode_query_len >= 1 && request.max_num_seqs >= 1 && request.max_num_batched_tokens >= 1)
      << request.decode_query_len << ", " << request.max_num_seqs << ", " << request.max_num_batched_tokens;
  return BucketChooser(request).choose();
}

}  // namespace quire::graph
