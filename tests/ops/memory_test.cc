// Gathers, embedding, and the rope + cache write cell by cell: what is written, where, and that nothing else in the pool changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/kv_fixture.h"
#include "kit/seed.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "ops/pack.h"
#include "reference/kv_cache.h"
#include "reference/norm.h"
#include "reference/rope.h"
#include "reference/rounding.h"

namespace quire {
namespace {

using reference::Matrix;

struct RopeCase {
  DType dtype = DType::kF32;
  std::int32_t heads = 4, kv_heads = 2, head_dim = 64, block_size = 16;
  bool q_norm = false, k_norm = false;
};

// The engine's table: [positions, head_dim] of cos, then sin, rounded from float64.
std::vector<float> cos_sin_table(const reference::Rotation& rotation, std::int64_t positions) {
  std::vector<float> out;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (const double f : rotation.frequencies) out.push_back(static_cast<float>(std::cos(static_cast<double>(p) * f) * rotation.attention_scale));
    for (const double f : rotation.frequencies) out.push_back(static_cast<float>(std::sin(static_cast<double>(p) * f) * rotation.attention_scale));
  }
  return out;
}

// Columns [first, first + count) as rows of `head_dim`.
Matrix heads_of(const Matrix& m, std::int64_t first, std::int64_t count, std::int64_t head_dim) {
  Matrix out(m.rows * count / head_dim, head_dim);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) out.values[static_cast<std::size_t>(r * count + c)] = m.at(r, first + c);
  return out;
}

struct Turned {
  Matrix values;
  std::vector<double> bounds;
};

// The twin's heads after the optional norm and the rotation, and how far a float32 kernel may be from it.
Turned turned(const Matrix& heads, const std::vector<double>* weight, double eps, const std::vector<std::int64_t>& positions, const reference::Rotation& rotation, DType output) {
  const Matrix normed = weight == nullptr ? heads : reference::rms_norm(heads, *weight, eps);
  const auto norm_error = weight == nullptr ? std::vector<double>(heads.values.size(), 0.0) : test::rms_norm_bounds(heads, *weight, eps, {});
  const auto per_token = heads.rows / static_cast<std::int64_t>(positions.size());
  std::vector<std::int64_t> each;
  for (const std::int64_t p : positions) each.insert(each.end(), static_cast<std::size_t>(per_token), p);
  Turned t{reference::rope(normed, each, rotation), test::rope_bounds(normed, each, rotation.frequencies, rotation.attention_scale, {})};
  const std::int64_t half = heads.cols / 2;
  for (std::int64_t r = 0; r < heads.rows; ++r)
    for (std::int64_t c = 0; c < heads.cols; ++c) {
      const auto at = static_cast<std::size_t>(r * heads.cols + c), partner = static_cast<std::size_t>(r * heads.cols + (c + half) % heads.cols);
      t.bounds[at] += (norm_error[at] + norm_error[partner]) * rotation.attention_scale;
      t.bounds[at] = test::rounding_error(t.values.values[at], t.bounds[at], output);
    }
  return t;
}

// What an FP8 cell may hold of a value that is known with `error`: the quotient, limited to the type's range, which magnifies nothing.
struct Stored {
  double value, bound;
};
Stored stored(double value, double error, double scale, DType dtype) {
  const double u = test::unit_roundoff(DType::kF32), largest = reference::round_to(dtype, std::numeric_limits<double>::infinity());
  const double quotient = std::clamp(value / scale, -largest, largest);
  return {quotient, test::rounding_error(quotient, (error * (1 + u) + u * std::fabs(value)) / scale, dtype)};
}

void check_rope_kv_write(const RopeCase& c, std::mt19937_64& rng) {
  SCOPED_TRACE(std::string(dtype_name(c.dtype)) + " heads " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) + " of " + std::to_string(c.head_dim) + ", block " + std::to_string(c.block_size));
  test::KvCase shape;
  shape.dtype = c.dtype;
  shape.num_layers = 3;
  shape.layer = 1;
  shape.num_heads = c.heads;
  shape.num_kv_heads = c.kv_heads;
  shape.head_dim = c.head_dim;
  shape.block_size = c.block_size;
  shape.padding_rows = 2;
  shape.query_lens = {1, 37, 5, 0, 1};
  shape.seq_lens = {c.block_size + 1, 37, 70, 9, 1};
  test::KvBatch b = test::make_kv_batch(shape, rng, test::Cached::kHistoryOnly);
  const std::int64_t tokens = b.queries.rows, d = c.head_dim, q_size = c.heads * d, kv_size = c.kv_heads * d;
  const Matrix qkv = test::random_matrix(tokens, q_size + 2 * kv_size, DType::kF32, 1.0, rng);
  const Matrix q_weight = test::random_matrix(1, d, DType::kF32, 1.0, rng), k_weight = test::random_matrix(1, d, DType::kF32, 1.0, rng);
  const double eps = static_cast<double>(1e-6f);
  model::RopeSpec yarn;
  yarn.kind = model::RopeKind::kYarn;  // the one kind with a scale
  yarn.factor = 4.0;
  const auto rotation = reference::rotation_of({yarn, c.head_dim, 64, 256});
  const auto table = cos_sin_table(rotation, 100);
  const auto positions = b.positions();
  const std::vector<std::int32_t> positions32(positions.begin(), positions.end());
  std::vector<std::int64_t> slots;
  for (const SlotId s : b.new_slots()) slots.push_back(s.value);

  test::GuardedActs in(qkv), q(tokens, q_size), qw(q_weight), kw(k_weight);
  test::GuardedBuffer pool(c.dtype, b.pool.size() / dtype_bytes(c.dtype));
  std::copy(b.pool.begin(), b.pool.end(), pool.bytes().begin());
  ops::RopeKvWrite args{in.tensor(), positions32.data(), slots.data(), table.data()};
  if (c.q_norm) args.q_norm = qw.floats().data();
  if (c.k_norm) args.k_norm = kw.floats().data();
  args.norm_eps = 1e-6f;
  args.num_heads = c.heads;
  args.q = q.tensor();
  if (!b.kv_scales.empty()) args.kv_scales = b.kv_scales.data();
  ops::qk_norm_rope_kv_write(test::op_stream(), args, b.layout, pool.bytes().data(), 1);
  EXPECT_EQ(q.buffer.damage() + pool.damage(), "");

  const Turned want_q = turned(heads_of(qkv, 0, q_size, d), c.q_norm ? &q_weight.values : nullptr, eps, positions, rotation, DType::kF32);
  const auto cmp = test::compare(q.buffer.values(), want_q.values.values, want_q.bounds);
  EXPECT_TRUE(cmp.equal) << "q: " << cmp.report;

  // The pool: take out the cells of the step's tokens one by one; what is left must be the bytes from before.
  const Turned want_k = turned(heads_of(qkv, q_size, kv_size, d), c.k_norm ? &k_weight.values : nullptr, eps, positions, rotation, is_fp8(c.dtype) ? DType::kF32 : c.dtype);
  std::vector<std::byte> rest(pool.bytes().begin(), pool.bytes().end());
  std::vector<double> got_k, expect_k, bound_k, got_v, expect_v;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t slot = slots[static_cast<std::size_t>(t)];
    if (slot < 0) continue;
    for (std::int32_t i = 0; i < kv_size; ++i) {
      reference::KvElement e{1, slot / c.block_size, kv::Part::kKey, static_cast<std::int32_t>(i / d), static_cast<std::int32_t>(slot % c.block_size), static_cast<std::int32_t>(i % d)};
      for (const kv::Part part : {kv::Part::kKey, kv::Part::kValue}) {
        e.part = part;
        (part == kv::Part::kKey ? got_k : got_v).push_back(reference::kv_read(b.layout, pool.bytes(), e));
        const auto first = static_cast<std::ptrdiff_t>(b.layout.element(e.layer, e.block, part, e.head, e.offset, e.dim)) * static_cast<std::ptrdiff_t>(dtype_bytes(c.dtype));
        std::copy_n(b.pool.begin() + first, dtype_bytes(c.dtype), rest.begin() + first);
      }
      const auto at = static_cast<std::size_t>(t * kv_size + i);
      const double v = qkv.at(t, q_size + kv_size + i);
      if (!is_fp8(c.dtype)) {
        expect_k.push_back(want_k.values.values[at]);
        bound_k.push_back(want_k.bounds[at]);
        expect_v.push_back(reference::round_to(c.dtype, v));
        continue;
      }
      const Stored key = stored(want_k.values.values[at], want_k.bounds[at], b.scales.of(kv::Part::kKey, e.head), c.dtype);
      expect_k.push_back(key.value);
      bound_k.push_back(key.bound);
      // The division rounds to float32 first: exact but for numbers within that rounding of a tie.
      expect_v.push_back(reference::round_to(c.dtype, static_cast<double>(static_cast<float>(v) / static_cast<float>(b.scales.of(kv::Part::kValue, e.head)))));
    }
  }
  const auto keys = test::compare(got_k, expect_k, bound_k);
  EXPECT_TRUE(keys.equal) << "keys: " << keys.report;
  const auto values = test::compare(got_v, expect_v, 0.0);
  EXPECT_TRUE(values.equal) << "values: " << values.report;
  const auto others = test::compare_bits(rest, b.pool, dtype_bytes(c.dtype));
  EXPECT_TRUE(others.equal) << "cells of nobody: " << others.report;
}

TEST(RopeKvWrite, CellByCellInEveryStorageAndBlockSize) {
  auto rng = test::seeded_rng();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2})
    for (const std::int32_t block : {16, 32, 48, 64}) {
      check_rope_kv_write({.dtype = dtype, .block_size = block}, rng);
      check_rope_kv_write({.dtype = dtype, .heads = 3, .kv_heads = 3, .head_dim = 10, .block_size = block, .q_norm = true}, rng);
      check_rope_kv_write({.dtype = dtype, .heads = 8, .kv_heads = 1, .head_dim = 80, .block_size = block, .k_norm = true}, rng);
    }
}

TEST(RopeKvWrite, EveryHeadSizeWithBothNorms) {
  auto rng = test::seeded_rng();
  for (const std::int32_t d : {2, 4, 8, 16, 32, 96, 112, 120, 128, 160, 192, 224, 256}) check_rope_kv_write({.heads = 2, .kv_heads = 1, .head_dim = d, .q_norm = true, .k_norm = true}, rng);
}

TEST(RopeKvWriteDeath, RefusesALayoutOfAnotherWriter) {
  kv::KvLayout layout{1, 1, 8, 16, 1, DType::kF32, kv::CellOrder::kTokenMajor, kv::CellOrder::kTokenMajor};
  test::GuardedActs qkv(1, 24), q(1, 8);
  EXPECT_DEATH(ops::qk_norm_rope_kv_write(test::op_stream(), ops::RopeKvWrite{.qkv = qkv.tensor(), .num_heads = 1, .q = q.tensor()}, layout, nullptr, 0), "this writer fills");
}

TEST(Embed, RowMajorAndPanelsGiveTheTablesRows) {
  auto rng = test::seeded_rng();
  for (const DType dtype : test::kStorageTypes)
    for (const std::int64_t hidden : test::kOddSizes) {
      const std::int64_t vocab = 1 + static_cast<std::int64_t>(rng() % 150);
      const Matrix table = test::random_matrix(vocab, hidden, dtype, 1.0, rng);
      const auto bytes = test::raw_bytes(table, dtype);
      const auto format = test::format_of(dtype);
      test::GuardedBuffer rows(dtype, table.values.size()), panels(dtype, ops::Weight::packed_bytes(format, vocab, hidden) / dtype_bytes(dtype));
      ASSERT_TRUE(ops::store_rows({"t", dtype, bytes, vocab, hidden}, format, rows.bytes().data()).ok());
      ASSERT_TRUE(ops::pack_rows({"t", dtype, bytes, vocab, hidden}, format, 0, panels.bytes().data()).ok());
      std::vector<std::int32_t> ids = {0, static_cast<std::int32_t>(vocab - 1)};
      for (int i = 0; i < 9; ++i) ids.push_back(static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(vocab)));
      for (const std::int64_t panel : {std::int64_t{1}, ops::kPanel}) {
        test::GuardedActs out(std::ssize(ids), hidden);
        ops::embed(test::op_stream(), ids.data(), {format, vocab, hidden, panel == 1 ? rows.bytes().data() : panels.bytes().data(), panel}, out.tensor());
        EXPECT_EQ(out.buffer.damage(), "");
        for (std::size_t i = 0; i < ids.size(); ++i) {
          const auto got = test::widen(std::span<const float>(out.row(static_cast<std::int64_t>(i))));
          const auto c = test::compare(got, table.row(ids[i]), 0.0);
          ASSERT_TRUE(c.equal) << "panel " << panel << ", id " << ids[i] << " of " << vocab << ": " << c.report;
        }
      }
    }
}

TEST(Embed, TheScaleIsOneProduct) {
  const float table[4] = {0.1f, -3.0f, 7.7f, 1e-39f};
  const std::int32_t id = 1;
  test::GuardedActs out(1, 2);
  ops::embed(test::op_stream(), &id, {ops::WeightFormat::kF32, 2, 2, table, 1, 25.25f}, out.tensor());
  EXPECT_EQ(out.floats()[0], 7.7f * 25.25f);
  EXPECT_EQ(out.floats()[1], 1e-39f * 25.25f);
}

TEST(EmbedDeath, AnIdOutsideTheTableEndsTheProcess) {
  const float table[4] = {};
  for (const std::int32_t id : {-1, 2}) {
    test::GuardedActs out(1, 2);
    EXPECT_DEATH(ops::embed(test::op_stream(), &id, {ops::WeightFormat::kF32, 2, 2, table, 1}, out.tensor()), "token id");
  }
}

TEST(Gather, TokensFromTheHistoryAndZeroForPadding) {
  const std::int64_t stride = 7;
  std::vector<std::int32_t> history(21);
  for (std::size_t i = 0; i < history.size(); ++i) history[i] = static_cast<std::int32_t>(100 + i);
  const std::vector<std::int32_t> rows = {2, -1, 0, 1, 2}, positions = {6, 5, 0, 3, 0};
  std::vector<std::int32_t> ids(6, -7);
  ops::gather_tokens(test::op_stream(), {history.data(), stride, rows.data(), positions.data(), ids.data()}, 5);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{120, 0, 100, 110, 114, -7}));
}

TEST(Gather, RowsAndZerosForPadding) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : test::kOddSizes) {
    test::GuardedActs x(test::random_matrix(6, n, DType::kF32, 1.0, rng)), y(5, n);
    const std::vector<std::int32_t> rows = {5, -1, 0, 5, 3};
    ops::gather_rows(test::op_stream(), x.tensor(), rows.data(), y.tensor());
    EXPECT_EQ(y.buffer.damage(), "");
    for (std::int64_t i = 0; i < 5; ++i) {
      const std::int32_t from = rows[static_cast<std::size_t>(i)];
      const std::vector<float> zeros(static_cast<std::size_t>(n), 0.0f);
      EXPECT_TRUE(test::compare_bits(y.row(i), from < 0 ? std::span<const float>(zeros) : x.row(from)).equal) << i;
    }
  }
}

}  // namespace
}  // namespace quire
