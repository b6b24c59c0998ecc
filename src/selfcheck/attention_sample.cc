#include "selfcheck/attention_sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "reference/bounds.h"
#include "reference/kv_cache.h"

namespace quire::selfcheck {
namespace {

using reference::Matrix;

// Of the new tokens of a sequence: both ends, the borders of cells, tiles and partitions, and the middle.
std::set<std::int32_t> sampled_tokens(std::int32_t num_new) {
  std::set<std::int32_t> out;
  for (const std::int32_t t : {0, 1, 15, 16, 63, 64, 511, 512, num_new / 2, num_new - 1})
    if (t < num_new) out.insert(t);
  return out;
}

std::set<std::int32_t> ends(std::int32_t n) { return {0, n - 1}; }

std::vector<float> read_row(const TensorView& rows, std::int64_t row, device::Stream& stream) {
  std::vector<float> host(static_cast<std::size_t>(rows.dim(1)));
  stream.copy_to_host(host.data(), rows.as<float>() + row * rows.dim(1), host.size() * sizeof(float));
  return host;
}

Matrix first_rows(const Matrix& m, std::int64_t n) { return Matrix(n, m.cols, std::vector<double>(m.values.begin(), m.values.begin() + n * m.cols)); }

// A row that holds what is no number was not written, or not right.
void check_written(const AttentionRows& rows, device::Stream& stream, Tally::Line line) {
  for (std::int64_t r = 0; r < rows.out.dim(0); ++r) {
    const std::vector<float> out = read_row(rows.out, r, stream);
    const auto wrong = std::ranges::find_if(out, [](float v) { return !std::isfinite(v); });
    if (wrong != out.end()) line.add(static_cast<double>(*wrong), 0.0, 0.0, [&] { return "row " + std::to_string(r) + ", element " + std::to_string(wrong - out.begin()); });
  }
}

}  // namespace

AttentionSample::AttentionSample(const kv::KvStore& store, std::vector<SampledSequence> sequences, device::Stream& stream)
    : store_(store), one_(store.layout()), sequences_(std::move(sequences)), scales_(kv::KvStore::num_scales(store.layout())) {
  one_.num_layers = 1;
  one_.num_blocks = 1;
  stream.copy_to_host(scales_.data(), store.scales(), scales_.size() * sizeof(float));
  for (const SampledSequence& s : sequences_) fill(s, stream);
}

// Keys small enough that no score rules the softmax (an error in one key then shows), values of size 1; past the end NaN.
void AttentionSample::fill(const SampledSequence& s, device::Stream& stream) {
  std::mt19937_64 rng(static_cast<std::uint64_t>(s.first_row) + 1);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  const kv::KvLayout& pool = store_.layout();
  for (std::size_t i = 0; i < s.blocks.size(); ++i) {
    std::vector<std::byte>& image = images_[s.blocks[i]];
    QUIRE_CHECK(image.empty()) << "block " << s.blocks[i] << " belongs to two sequences";
    image.resize(static_cast<std::size_t>(one_.block_bytes()));
    reference::KvElement e;
    for (e.head = 0; e.head < one_.num_kv_heads; ++e.head)
      for (e.offset = 0; e.offset < one_.block_size; ++e.offset) {
        const bool inside = static_cast<std::int32_t>(i) * one_.block_size + e.offset < s.seq_len;
        for (e.dim = 0; e.dim < one_.head_dim; ++e.dim)
          for (const kv::Part part : {kv::Part::kKey, kv::Part::kValue}) {
            e.part = part;
            reference::kv_write_element(one_, image, e, inside ? uniform(rng) * (part == kv::Part::kKey ? 0.125 : 1.0) : std::numeric_limits<double>::quiet_NaN());
          }
      }
    const std::int64_t first = pool.cell_start(pool.num_layers - 1, s.blocks[i], kv::Part::kKey, 0, 0) * static_cast<std::int64_t>(dtype_bytes(pool.dtype));
    stream.copy_to_device(static_cast<std::byte*>(store_.data()) + first, image.data(), image.size());
  }
}

// [seq_len, head_dim]: what the cache holds of one head.
Matrix AttentionSample::context(const SampledSequence& s, kv::Part part, std::int32_t kv_head) const {
  Matrix out(s.seq_len, one_.head_dim);
  const std::size_t plane = (static_cast<std::size_t>(store_.layout().num_layers - 1) * 2 + (part == kv::Part::kKey ? 0u : 1u)) * static_cast<std::size_t>(one_.num_kv_heads) + static_cast<std::size_t>(kv_head);
  const double scale = scales_.empty() ? 1.0 : static_cast<double>(scales_.at(plane));
  reference::KvElement e{.part = part, .head = kv_head};
  for (std::int32_t t = 0; t < s.seq_len; ++t) {
    const std::vector<std::byte>& image = images_.at(s.blocks[static_cast<std::size_t>(t / one_.block_size)]);
    e.offset = t % one_.block_size;
    for (e.dim = 0; e.dim < one_.head_dim; ++e.dim) out.at(t, e.dim) = reference::kv_read(one_, image, e) * scale;
  }
  return out;
}

void AttentionSample::mark_output(const AttentionRows& rows, device::Stream& stream) const {
  const std::vector<float> nans(static_cast<std::size_t>(rows.out.dim(1)), std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t r = 0; r < rows.out.dim(0); ++r) stream.copy_to_device(rows.out.as<float>() + r * rows.out.dim(1), nans.data(), nans.size() * sizeof(float));
}

// The first and last query head of one KV head, for the sampled rows of one sequence.
void AttentionSample::check_heads(const SampledSequence& s, std::int32_t kv_head, const AttentionRows& rows, device::Stream& stream, Tally::Line line) const {
  const auto d = static_cast<std::size_t>(one_.head_dim);
  const std::int32_t group = rows.num_heads / one_.num_kv_heads;
  const Matrix keys = context(s, kv::Part::kKey, kv_head), values = context(s, kv::Part::kValue, kv_head);
  const reference::Precision precision{.cache_scale_roundings = is_fp8(one_.dtype) ? 1 : 0};
  for (const std::int32_t token : sampled_tokens(s.num_new)) {
    const std::int64_t row = s.first_row + token;
    const std::int32_t num_visible = s.seq_len - s.num_new + token + 1;
    const Matrix seen_keys = first_rows(keys, num_visible), seen_values = first_rows(values, num_visible);
    const std::vector<float> queries = read_row(rows.queries, row, stream), got = read_row(rows.out, row, stream);
    const std::vector<double> wide(queries.begin(), queries.end());
    for (const std::int32_t g : ends(group)) {
      const auto head = static_cast<std::size_t>(kv_head * group + g);
      const reference::AttentionBounds want = reference::attend_bounds(std::span(wide).subspan(head * d, d), seen_keys, seen_values, rows.scale, precision);
      for (std::size_t i = 0; i < d; ++i)
        line.add(static_cast<double>(got[head * d + i]), want.exact.out[i], want.out[i],
                 [&] { return "row " + std::to_string(row) + " at position " + std::to_string(num_visible - 1) + ", head " + std::to_string(head) + ", dim " + std::to_string(i); });
    }
  }
}

Verdict AttentionSample::check(const AttentionRows& rows, device::Stream& stream) const {
  Tally tally;
  const Tally::Line line = tally.line("attention", "sampled");
  check_written(rows, stream, line);
  for (const SampledSequence& s : sequences_)
    for (const std::int32_t kv_head : ends(one_.num_kv_heads)) check_heads(s, kv_head, rows, stream, line);
  return tally.verdicts().front();
}

}  // namespace quire::selfcheck
