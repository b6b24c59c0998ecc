#include "attention/attention_rig.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "attention/cpu_kernels.h"
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

AttentionStep::AttentionStep(const KvBatch& batch, int threads)
    : b(batch), scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(batch.shape.head_dim)))), device(device_of(threads)), stream(device->make_stream()), pool(batch.pool),
      queries(narrow_exactly(batch.queries.values)), out(DType::kF32, batch.queries.values.size()) {
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
  attention::build_plan(rows, b.shape.num_heads / b.shape.num_kv_heads, plan);
  for (auto* list : {&plan.decode, &plan.extend, &plan.prefill})
    for (auto& w : *list) w.row = batch_rows[static_cast<std::size_t>(w.row)];
  decode = plan.decode;
  prefill = plan.extend;
  prefill.insert(prefill.end(), plan.prefill.begin(), plan.prefill.end());
  all = decode;
  all.insert(all.end(), prefill.begin(), prefill.end());
  counts[0] = static_cast<std::int32_t>(decode.size());
  counts[1] = static_cast<std::int32_t>(prefill.size());
  counts[2] = static_cast<std::int32_t>(all.size());
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
  a.layer = b.shape.layer;
  const attention::DeviceWork work{decode.data(), prefill.data(), all.data(), &counts[0], &counts[1], &counts[2], counts[0] + extra, counts[1] + extra, counts[2] + extra};
  attention::run_attention(s, backend_named(backend), a, work);
}

std::vector<float> AttentionStep::run(const std::string& backend, std::int64_t extra) {
  poison(out.bytes(), DType::kF32);
  launch(*stream, backend, extra);
  QUIRE_CHECK(out.damage().empty()) << out.damage();
  QUIRE_CHECK(std::equal(pool.begin(), pool.end(), b.pool.begin())) << "attention wrote into the cache";
  const auto values = out.as<float>();
  return {values.begin(), values.end()};
}

std::vector<float> rows_of(const KvBatch& b, const std::vector<float>& out, std::size_t sequence) {
  const auto width = static_cast<std::ptrdiff_t>(b.queries.cols);
  return {out.begin() + b.batch.query_start_loc[sequence] * width, out.begin() + b.batch.query_start_loc[sequence + 1] * width};
}

}  // namespace quire::test
