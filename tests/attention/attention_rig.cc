#include "attention/attention_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "attention/cpu_kernels.h"
#include "kit/bounds.h"
#include "kit/compare.h"

namespace quire::test {
namespace {

std::shared_ptr<device::CpuDevice> device_of(int threads) {
  static std::map<int, std::shared_ptr<device::CpuDevice>> devices;
  auto& d = devices[threads];
  if (d == nullptr) d = std::make_shared<device::CpuDevice>(threads, attention::cpu_kernels());
  return d;
}

}  // namespace

const attention::BackendCaps& backend_named(const std::string& name) {
  for (const auto& row : attention::backend_table())
    if (row.name == name) return row;
  QUIRE_CHECK(false) << name;
  return attention::backend_table()[0];
}

KvCase ShapeCase::kv_case() const {
  KvCase c;
  c.dtype = dtype;
  c.num_heads = num_heads;
  c.num_kv_heads = num_kv_heads;
  c.head_dim = head_dim;
  c.block_size = block_size;
  c.padding_rows = padding_rows;
  c.magnitude = magnitude;
  for (const auto& [q, n] : lens) c.query_lens.push_back(q), c.seq_lens.push_back(n);
  return c;
}

std::string ShapeCase::describe() const {
  std::string out = std::string(dtype_name(dtype)) + ", heads " + std::to_string(num_heads) + "/" + std::to_string(num_kv_heads) + " of " + std::to_string(head_dim) + ", block " + std::to_string(block_size) + ", lengths";
  for (const auto& [q, n] : lens) out += " " + std::to_string(q) + "/" + std::to_string(n);
  return out;
}

AttentionStep::AttentionStep(const KvBatch& batch, int threads, const PlanOptions& o)
    : b(batch), scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(batch.shape.head_dim)))), device(device_of(threads)), stream(device->make_stream()), pool(batch.pool),
      queries(narrow_exactly(batch.queries.values)), out(DType::kF32, batch.queries.values.size()), options(o), slopes_(narrow_exactly(o.masks.alibi_slopes)), sinks_(narrow_exactly(o.masks.sinks)),
      partial_acc_(DType::kF32, static_cast<std::size_t>(o.partial_slots * batch.queries.cols)), partial_stats_(DType::kF32, static_cast<std::size_t>(o.partial_slots * batch.shape.num_heads * 2)) {
  masks.window = static_cast<std::int32_t>(o.masks.window);
  masks.chunk = static_cast<std::int32_t>(o.masks.chunk);
  masks.soft_cap = static_cast<float>(o.masks.soft_cap);
  masks.alibi_slopes = slopes_.empty() ? nullptr : slopes_.data();
  masks.sinks = sinks_.empty() ? nullptr : sinks_.data();
  // Sequence s keeps its table in state row 2 * (n - 1 - s) + 1; the rows between name block -1.
  const std::size_t n = b.shape.seq_lens.size();
  table_stride = b.max_blocks() + 3;
  tables.assign((2 * n + 1) * static_cast<std::size_t>(table_stride), -1);
  std::vector<attention::RowLengths> rows;
  std::vector<std::int32_t> batch_rows;
  for (std::size_t s = 0; s < n; ++s) {
    const std::size_t row = 2 * (n - 1 - s) + 1;
    std::copy(b.batch.block_tables[s].begin(), b.batch.block_tables[s].end(), tables.begin() + static_cast<std::ptrdiff_t>(row) * table_stride);
    if (b.shape.query_lens[s] == 0) continue;  // no rows: no work
    rows.push_back({b.shape.seq_lens[s] - b.shape.query_lens[s], b.shape.query_lens[s], static_cast<std::int32_t>(row)});
    batch_rows.push_back(static_cast<std::int32_t>(s));
  }
  attention::AttnPlan plan;
  attention::build_plan(rows, {.group = b.shape.num_heads / b.shape.num_kv_heads, .decode_query_len = o.decode_query_len, .partial_slots = o.partial_slots}, plan);
  for (auto* list : {&plan.decode, &plan.extend, &plan.prefill})
    for (auto& w : *list) w.row = batch_rows[static_cast<std::size_t>(w.row)];
  decode = plan.decode;
  prefill = plan.extend;
  prefill.insert(prefill.end(), plan.prefill.begin(), plan.prefill.end());
  all = decode;
  all.insert(all.end(), prefill.begin(), prefill.end());
  counts[0] = static_cast<std::int32_t>(decode.size());
  counts[1] = static_cast<std::int32_t>(prefill.size());
  parts = plan.decode_parts;
  num_split = plan.num_split;
  counts[2] = static_cast<std::int32_t>(all.size());
  counts[3] = static_cast<std::int32_t>(parts.size());
}

attention::DeviceWork AttentionStep::work(std::int64_t extra) {
  return attention::DeviceWork{.decode = decode.data(),
                               .prefill = prefill.data(),
                               .all = all.data(),
                               .num_decode = &counts[0],
                               .num_prefill = &counts[1],
                               .num_all = &counts[2],
                               .launch_decode = counts[0] + extra,
                               .launch_prefill = counts[1] + extra,
                               .launch_all = counts[2] + extra,
                               .parts = parts.data(),
                               .num_parts = &counts[3],
                               .launch_parts = counts[3] + extra,
                               .launch_combine = num_split > 0 || extra > 0 ? counts[0] + extra : 0,
                               .decode_query_len = options.decode_query_len,
                               .partials = {partial_acc_.as<float>().data(), partial_stats_.as<float>().data()}};
}

void AttentionStep::launch(device::Stream& s, const std::string& backend, std::int64_t extra) {
  const std::int64_t width = b.queries.cols, rows = b.queries.rows;
  attention::LayerAttention a;
  a.q = ops::ActTensor{TensorView::dense(queries.data(), DType::kF32, {rows, width})};
  a.out = ops::ActTensor{out.view({rows, width})};
  a.query_start = b.batch.query_start_loc.data();
  a.seq_lens = b.batch.seq_lens.data();
  a.block_table = tables.data();
  a.block_table_stride = table_stride;
  a.num_heads = b.shape.num_heads;
  a.scale = scale;
  a.layout = &b.layout;
  a.pool = pool.data();
  a.kv_scales = b.kv_scales.empty() ? nullptr : b.kv_scales.data();
  a.layer = b.shape.layer;
  a.masks = masks;
  attention::run_attention(s, backend_named(backend), a, work(extra));
}

std::vector<float> AttentionStep::run(const std::string& backend, std::int64_t extra) {
  for (GuardedBuffer* buffer : {&out, &partial_acc_, &partial_stats_}) poison(buffer->bytes(), DType::kF32);
  launch(*stream, backend, extra);
  for (GuardedBuffer* buffer : {&out, &partial_acc_, &partial_stats_}) QUIRE_CHECK(buffer->damage().empty()) << buffer->damage();
  QUIRE_CHECK(std::equal(pool.begin(), pool.end(), b.pool.begin())) << "attention wrote into the cache";
  const auto values = out.as<float>();
  return {values.begin(), values.end()};
}

namespace {

// Keys or values of one head of a sequence, positions [begin, end).
reference::Matrix head_rows(const KvBatch& b, const reference::Matrix& m, std::size_t sequence, std::int64_t kv_head, std::int64_t begin, std::int64_t end) {
  const std::int64_t d = b.shape.head_dim;
  reference::Matrix out(end - begin, d);
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t i = 0; i < d; ++i) out.at(t - begin, i) = m.at(b.token_start[sequence] + t, kv_head * d + i);
  return out;
}

}  // namespace

void expect_right(const KvBatch& b, float scale, const reference::AttentionMasks& masks, const std::vector<float>& got, const std::string& what) {
  const std::int64_t d = b.shape.head_dim, group = b.shape.num_heads / b.shape.num_kv_heads;
  Precision precision;
  precision.attention_part_tokens = attention::kTileTokens;
  precision.cache_scale_roundings = is_fp8(b.shape.dtype) ? 1 : 0;
  std::vector<double> want(got.size(), std::nan("")), bounds(got.size(), 0.0);  // rows of no sequence keep their poison
  for (std::size_t s = 0; s < b.shape.seq_lens.size(); ++s)
    for (std::int64_t i = 0; i < b.shape.query_lens[s]; ++i)
      for (std::int64_t h = 0; h < b.shape.num_heads; ++h) {
        const std::int64_t row = b.batch.query_start_loc[s] + i, end = b.shape.seq_lens[s] - b.shape.query_lens[s] + i + 1, begin = reference::first_visible(masks, end - 1);
        const auto keys = head_rows(b, b.keys, s, h / group, begin, end), values = head_rows(b, b.values, s, h / group, begin, end);
        const auto query = b.queries.row(row).subspan(static_cast<std::size_t>(h * d), static_cast<std::size_t>(d));
        reference::ScoreRule rule{.scale = static_cast<double>(scale), .soft_cap = masks.soft_cap};
        if (!masks.alibi_slopes.empty()) rule.alibi_slope = masks.alibi_slopes[static_cast<std::size_t>(h)];
        if (!masks.sinks.empty()) rule.sink = masks.sinks[static_cast<std::size_t>(h)];
        const auto exact = reference::attend(query, keys, values, rule);
        const auto bound = attend_bounds(query, keys, values, rule, precision);
        const auto at = static_cast<std::ptrdiff_t>(row * b.queries.cols + h * d);
        std::copy(exact.out.begin(), exact.out.end(), want.begin() + at);
        std::copy(bound.out.begin(), bound.out.end(), bounds.begin() + at);
      }
  const auto c = compare(widen(std::span<const float>(got)), want, bounds);
  EXPECT_TRUE(c.equal) << what << ": " << c.report;
}

KvBatch part_of(const KvBatch& b, std::size_t sequence, std::int32_t first, std::int32_t count) {
  KvBatch part = b;
  const std::int32_t cached = b.shape.seq_lens[sequence] - b.shape.query_lens[sequence];
  part.shape.query_lens = {count};
  part.shape.seq_lens = {cached + first + count};
  part.shape.padding_rows = 0;
  part.batch.block_tables = {b.batch.block_tables[sequence]};
  part.batch.seq_lens = part.shape.seq_lens;
  part.batch.query_start_loc = {0, count};
  const auto width = static_cast<std::ptrdiff_t>(b.queries.cols);
  const auto from = b.queries.values.begin() + (b.batch.query_start_loc[sequence] + first) * width;
  part.queries = reference::Matrix(count, b.queries.cols, {from, from + count * width});
  return part;
}

void expect_replays(AttentionStep& step, const device::Graph& graph, const std::vector<float>& want, const std::string& what) {
  const auto counts = std::to_array(step.counts);
  std::fill(step.counts, step.counts + counts.size(), 0);
  poison(step.out.bytes(), DType::kF32);
  step.stream->replay(graph);
  for (const float v : step.out.as<float>()) ASSERT_NE(v, v) << what << ": no work, yet something was written";
  std::copy(counts.begin(), counts.end(), step.counts);
  step.stream->replay(graph);
  const auto values = step.out.as<float>();
  const auto c = compare_bits(values, want);
  EXPECT_TRUE(c.equal) << what << ": " << c.report;
}

std::vector<float> rows_of(const KvBatch& b, const std::vector<float>& out, std::size_t sequence) {
  const auto width = static_cast<std::ptrdiff_t>(b.queries.cols);
  return {out.begin() + b.batch.query_start_loc[sequence] * width, out.begin() + b.batch.query_start_loc[sequence + 1] * width};
}

}  // namespace quire::test
