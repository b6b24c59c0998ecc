#include "kit/kv_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "kit/guarded_buffer.h"
#include "reference/kv_cache.h"
#include "reference/rounding.h"

namespace quire::test {
namespace {

using reference::Matrix;

Matrix random_matrix(std::int64_t rows, std::int64_t cols, DType dtype, double magnitude, std::mt19937_64& rng) {
  std::normal_distribution<double> normal(0.0, magnitude);
  Matrix m(rows, cols);
  for (double& v : m.values) v = reference::round_to(dtype, normal(rng));
  return m;
}

// Scales over six binades, no powers of two, other ones for every head and part.
void add_scales(KvBatch& b, std::mt19937_64& rng) {
  const KvCase& c = b.shape;
  if (!is_fp8(c.dtype)) return;
  const auto heads = static_cast<std::size_t>(c.num_kv_heads);
  b.kv_scales.assign(static_cast<std::size_t>(c.num_layers) * 2 * heads, std::numeric_limits<float>::quiet_NaN());
  std::uniform_real_distribution<float> exponent(-5.0f, 1.0f);
  for (std::size_t i = 0; i < 2 * heads; ++i) {
    const float scale = std::exp2(exponent(rng));
    b.kv_scales[static_cast<std::size_t>(c.layer) * 2 * heads + i] = scale;
    (i < heads ? b.scales.keys : b.scales.values).push_back(static_cast<double>(scale));
  }
}

// Numbers that the cache holds exactly: stored ones of standard deviation magnitude / scale, times the scale.
Matrix cached_matrix(const KvBatch& b, kv::Part part, std::int64_t rows, std::mt19937_64& rng) {
  const KvCase& c = b.shape;
  Matrix m = random_matrix(rows, std::int64_t{c.num_kv_heads} * c.head_dim, DType::kF32, c.magnitude, rng);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < m.cols; ++i) {
      const double scale = b.scales.of(part, static_cast<std::int32_t>(i / c.head_dim));
      m.at(r, i) = reference::round_to(c.dtype, m.at(r, i) / scale) * scale;
    }
  return m;
}

std::int32_t blocks_for(const KvCase& c, std::int32_t num_tokens) { return (num_tokens + c.block_size - 1) / c.block_size; }

void check_case(const KvCase& c) {
  QUIRE_CHECK_EQ(c.query_lens.size(), c.seq_lens.size());
  QUIRE_CHECK(c.spare_blocks >= 1 && c.padding_rows >= 0 && c.layer < c.num_layers);
  for (std::size_t s = 0; s < c.seq_lens.size(); ++s) QUIRE_CHECK(c.query_lens[s] >= 0 && c.query_lens[s] <= c.seq_lens[s]) << "sequence " << s;
}

// Permuted block ids: the first `used` of them belong to sequences, the rest stay poisoned.
struct Blocks {
  std::vector<std::int32_t> ids;
  std::size_t used = 0;
};

Blocks permuted_blocks(const KvCase& c, std::mt19937_64& rng) {
  Blocks blocks;
  for (const std::int32_t n : c.seq_lens) blocks.used += static_cast<std::size_t>(blocks_for(c, n));
  blocks.ids.resize(blocks.used + static_cast<std::size_t>(c.spare_blocks));
  std::iota(blocks.ids.begin(), blocks.ids.end(), 0);
  std::ranges::shuffle(blocks.ids, rng);
  return blocks;
}

void add_sequences(KvBatch& b, const Blocks& blocks) {
  const KvCase& c = b.shape;
  std::size_t next = 0;
  b.batch.query_start_loc = {0};
  b.token_start = {0};
  for (std::size_t s = 0; s < c.seq_lens.size() + static_cast<std::size_t>(c.padding_rows); ++s) {
    const bool padding = s >= c.seq_lens.size();
    const std::int32_t seq_len = padding ? 0 : c.seq_lens[s];
    std::vector<std::int32_t> table;
    for (std::int32_t i = 0; i < blocks_for(c, seq_len); ++i) table.push_back(blocks.ids[next++]);
    for (std::int32_t t = 0; t < seq_len; ++t) {
      const std::int64_t block = table[static_cast<std::size_t>(t / c.block_size)];
      b.slots.push_back(SlotId{block * c.block_size + t % c.block_size});
    }
    table.push_back(blocks.ids.back());  // an entry past the sequence's end: names a poisoned block
    b.batch.block_tables.push_back(std::move(table));
    b.batch.seq_lens.push_back(seq_len);
    b.batch.query_start_loc.push_back(b.batch.query_start_loc.back() + (padding ? 1 : c.query_lens[s]));
    b.token_start.push_back(b.token_start.back() + seq_len);
  }
}

// Slots of the tokens that the cache holds before the step.
std::vector<SlotId> cached_slots(const KvBatch& b, Cached cached) {
  std::vector<SlotId> slots = b.slots;
  if (cached == Cached::kEverything) return slots;
  for (std::size_t s = 0; s < b.shape.seq_lens.size(); ++s)
    for (std::int32_t i = 1; i <= b.shape.query_lens[s]; ++i) slots[static_cast<std::size_t>(b.token_start[s + 1] - i)] = SlotId::none();
  return slots;
}

Matrix step_rows(const KvBatch& b, const Matrix& tokens) {
  Matrix out(b.queries.rows, tokens.cols);
  for (std::size_t s = 0; s < b.shape.seq_lens.size(); ++s) {
    const std::int32_t rows = b.shape.query_lens[s];
    for (std::int32_t i = 0; i < rows; ++i)
      std::ranges::copy(tokens.row(b.token_start[s + 1] - rows + i), out.row(b.batch.query_start_loc[s] + i).begin());
  }
  return out;
}

}  // namespace

void randomise_lengths(KvCase& c, std::mt19937_64& rng, std::int32_t num_sequences, std::int32_t max_seq_len) {
  QUIRE_CHECK_GE(max_seq_len, 1);
  const auto pick = [&](std::int32_t low, std::int32_t high) { return std::uniform_int_distribution<std::int32_t>(low, high)(rng); };
  c.query_lens.clear();
  c.seq_lens.clear();
  for (std::int32_t s = 0; s < num_sequences; ++s) {
    const std::int32_t seq_len = pick(1, max_seq_len);
    switch (pick(0, 7)) {
      case 0: c.seq_lens.push_back(0), c.query_lens.push_back(0); break;
      case 1:
      case 2: c.seq_lens.push_back(seq_len), c.query_lens.push_back(seq_len); break;
      case 3:
      case 4: c.seq_lens.push_back(seq_len), c.query_lens.push_back(pick(1, seq_len)); break;
      default: c.seq_lens.push_back(seq_len), c.query_lens.push_back(1); break;
    }
  }
}

KvBatch make_kv_batch(const KvCase& c, std::mt19937_64& rng, Cached cached) {
  check_case(c);
  const Blocks blocks = permuted_blocks(c, rng);
  KvBatch b;
  b.shape = c;
  b.layout = kv::KvLayout{c.num_layers, c.num_kv_heads, c.head_dim,   c.block_size, static_cast<std::int64_t>(blocks.ids.size()),
                          c.dtype,      c.key_order,    c.value_order};
  add_sequences(b, blocks);
  add_scales(b, rng);
  b.queries = random_matrix(b.batch.query_start_loc.back(), std::int64_t{c.num_heads} * c.head_dim, is_fp8(c.dtype) ? DType::kF32 : c.dtype, c.magnitude, rng);
  b.keys = cached_matrix(b, kv::Part::kKey, b.token_start.back(), rng);
  b.values = cached_matrix(b, kv::Part::kValue, b.token_start.back(), rng);
  b.pool.resize(static_cast<std::size_t>(b.layout.total_bytes()));
  poison(b.pool, c.dtype);
  reference::kv_write(b.layout, b.pool, {c.layer, b.keys, b.values, cached_slots(b, cached), b.scales});
  return b;
}

Matrix KvBatch::new_keys() const { return step_rows(*this, keys); }
Matrix KvBatch::new_values() const { return step_rows(*this, values); }

std::vector<SlotId> KvBatch::new_slots() const {
  std::vector<SlotId> out(static_cast<std::size_t>(queries.rows), SlotId::none());
  for (std::size_t s = 0; s < shape.seq_lens.size(); ++s) {
    const std::int32_t rows = shape.query_lens[s];
    for (std::int32_t i = 0; i < rows; ++i)
      out[static_cast<std::size_t>(batch.query_start_loc[s] + i)] = slots[static_cast<std::size_t>(token_start[s + 1] - rows + i)];
  }
  return out;
}

std::vector<std::int64_t> KvBatch::positions() const {
  std::vector<std::int64_t> out(static_cast<std::size_t>(queries.rows), 0);
  for (std::size_t s = 0; s < shape.seq_lens.size(); ++s)
    for (std::int32_t i = 0; i < shape.query_lens[s]; ++i)
      out[static_cast<std::size_t>(batch.query_start_loc[s] + i)] = shape.seq_lens[s] - shape.query_lens[s] + i;
  return out;
}

std::int32_t KvBatch::max_blocks() const {
  std::size_t longest = 0;
  for (const auto& table : batch.block_tables) longest = std::max(longest, table.size());
  return static_cast<std::int32_t>(longest);
}

std::vector<std::int32_t> KvBatch::flat_block_table() const {
  std::vector<std::int32_t> out;
  for (const auto& table : batch.block_tables) {
    out.insert(out.end(), table.begin(), table.end());
    out.insert(out.end(), static_cast<std::size_t>(max_blocks()) - table.size(), table.back());  // poisoned block
  }
  return out;
}

reference::PagedAttention KvBatch::question(double scale) const { return {layout, pool, shape.layer, shape.num_heads, scale, {}, scales}; }

}  // namespace quire::test
