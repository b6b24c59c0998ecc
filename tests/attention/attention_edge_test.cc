// Edges of attention: lists that are empty, rows in the wrong list, infinities and NaN, and a pool of more than 2^31 elements.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "attention/attention_rig.h"
#include "attention/cpu_kernels.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "reference/kv_cache.h"

namespace quire {
namespace {

using test::ShapeCase;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(AttentionLaunch, AnEmptyListIsNotLaunched) {
  auto rng = test::seeded_rng();
  struct Expect {
    std::vector<std::pair<std::int32_t, std::int32_t>> lens;
    std::uint64_t unified, split;
  };
  for (const Expect& e : {Expect{{{1, 5}, {1, 70}}, 1, 1}, Expect{{{3, 3}}, 1, 1}, Expect{{{1, 1}, {4, 9}}, 1, 2}, Expect{{{0, 9}}, 0, 0}}) {
    const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .lens = e.lens}.kv_case(), rng);
    test::AttentionStep step(b);
    (void)step.run("CPU_UNIFIED");
    EXPECT_EQ(step.stream->num_launches(), e.unified);
    (void)step.run("CPU_SPLIT");
    EXPECT_EQ(step.stream->num_launches(), e.unified + e.split);
  }
}

TEST(AttentionDeath, ARowInTheWrongListEndsTheProcess) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .lens = {{1, 5}, {4, 9}}}.kv_case(), rng);
  test::AttentionStep step(b);
  std::swap(step.decode, step.prefill);
  EXPECT_DEATH((void)step.run("CPU_SPLIT"), "query length");
}

TEST(AttentionDeath, ALayoutOfAnotherOrderEndsTheProcess) {
  auto rng = test::seeded_rng();
  auto c = ShapeCase{.head_dim = 16, .lens = {{1, 5}}}.kv_case();
  c.key_order = kv::CellOrder::kTokenMajor;
  const auto b = test::make_kv_batch(c, rng);
  test::AttentionStep step(b);
  EXPECT_DEATH((void)step.run("CPU_UNIFIED"), "reads another cell order");
}

struct OneHead {
  test::KvBatch b;
  explicit OneHead(std::mt19937_64& rng, std::int32_t n) : b(test::make_kv_batch(ShapeCase{.num_heads = 1, .num_kv_heads = 1, .head_dim = 8, .lens = {{1, n}}, .padding_rows = 0}.kv_case(), rng)) {}
  void set(kv::Part part, std::int32_t token, std::int32_t dim, double value) {
    const SlotId slot = b.slots[static_cast<std::size_t>(token)];
    reference::kv_write_element(b.layout, b.pool, {1, slot.value / 16, part, 0, static_cast<std::int32_t>(slot.value % 16), dim}, value);
  }
  [[nodiscard]] std::vector<float> run() const { return test::AttentionStep(b).run("CPU_UNIFIED"); }
  [[nodiscard]] std::vector<double> twin() const { return reference::attention(b.question(1.0 / std::sqrt(8.0)), b.batch, b.queries).out.values; }
};

TEST(AttentionSpecials, NanInAKeyReachesTheWholeRowInAValueItsOwnDimension) {
  auto rng = test::seeded_rng();
  for (const std::int32_t n : {1, 17, 64, 65, 600})
    for (const std::int32_t token : {0, n / 2, n - 1}) {
      OneHead key(rng, n), value(rng, n);
      key.set(kv::Part::kKey, token, 3, kNan);
      for (const float v : key.run()) EXPECT_TRUE(std::isnan(v)) << n << ", " << token;
      value.set(kv::Part::kValue, token, 5, kNan);
      const auto got = value.run();
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(got[i]), i == 5) << n << ", " << token << ", dim " << i;
    }
}

TEST(AttentionSpecials, InfiniteScoresAreTheTwins) {
  auto rng = test::seeded_rng();
  for (const std::int32_t n : {1, 3, 64, 70, 520, 1100}) {
    // All scores -inf: zeros. -inf in whole tiles or a whole partition only: as if those tokens were not there. One +inf: NaN.
    for (const std::int32_t last_hidden : {n, std::min(n - 1, 64), std::min(n - 1, 512), std::min(n - 1, 1)}) {
      OneHead c(rng, n);
      c.b.queries.at(0, 0) = 2.0;
      for (std::int32_t t = 0; t < last_hidden; ++t) c.set(kv::Part::kKey, t, 0, -kInf);
      const auto got = c.run();
      const auto verdict = test::compare(test::widen(std::span<const float>(got)), c.twin(), 1e-4);
      EXPECT_TRUE(verdict.equal) << n << " tokens, " << last_hidden << " hidden: " << verdict.report;
    }
    OneHead c(rng, n);
    c.b.queries.at(0, 0) = 2.0;
    c.set(kv::Part::kKey, n - 1, 0, kInf);
    for (const float v : c.run()) EXPECT_TRUE(std::isnan(v)) << n;
  }
}

// A unit whose row sees nothing (a padding row that was given work): zeros.
TEST(AttentionSpecials, ARowOfLengthZeroGivesZeros) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .lens = {{1, 5}}, .padding_rows = 1}.kv_case(), rng);
  test::AttentionStep step(b);
  step.all.push_back({1, 0, 1, 0});
  ++step.counts[2];
  const auto out = step.run("CPU_UNIFIED");
  for (std::size_t i = out.size() / 2; i < out.size(); ++i) EXPECT_EQ(out[i], 0.0f);
}

// The last block of a pool of more than 2^31 elements (and bytes beyond 2^32): any 32-bit offset would land elsewhere.
TEST(AttentionOffsets, BeyondTwoToThe31Elements) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.dtype = DType::kF32, .num_heads = 4, .num_kv_heads = 2, .head_dim = 64, .lens = {{1, 130}, {5, 40}}}.kv_case(), rng);
  const auto baseline = test::AttentionStep(b).run("CPU_UNIFIED");
  kv::KvLayout large = b.layout;
  large.num_blocks = (std::int64_t{3} << 30) / large.block_elements();  // layer 1 ends at 6 * 2^30 elements
  const auto bytes = static_cast<std::size_t>(large.total_bytes());
  void* const pool = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pool == MAP_FAILED) GTEST_SKIP() << "no address space for " << bytes << " bytes";
  // Block i moves to the i-th from the end.
  const auto moved = [&](std::int32_t block) { return static_cast<std::int32_t>(large.num_blocks - 1 - block); };
  const auto block_bytes = static_cast<std::size_t>(b.layout.block_bytes());
  for (std::int32_t block = 0; block < b.layout.num_blocks; ++block) {
    const auto from = static_cast<std::size_t>(b.layout.cell_start(1, block, kv::Part::kKey, 0, 0)) * 4, to = static_cast<std::size_t>(large.cell_start(1, moved(block), kv::Part::kKey, 0, 0)) * 4;
    std::copy_n(b.pool.begin() + static_cast<std::ptrdiff_t>(from), block_bytes, static_cast<std::byte*>(pool) + to);
  }
  test::AttentionStep step(b);
  for (auto& entry : step.tables)
    if (entry >= 0) entry = moved(entry);
  for (const char* name : test::kBackends) {
    test::poison(step.out.bytes(), DType::kF32);
    attention::LayerAttention a;
    a.q = ops::ActTensor{TensorView::dense(step.queries.data(), DType::kF32, {b.queries.rows, b.queries.cols})};
    a.out = ops::ActTensor{step.out.view({b.queries.rows, b.queries.cols})};
    a.query_start = b.batch.query_start_loc.data();
    a.seq_lens = b.batch.seq_lens.data();
    a.block_table = step.tables.data();
    a.block_table_stride = step.table_stride;
    a.num_heads = 4;
    a.scale = step.scale;
    a.layout = &large;
    a.pool = pool;
    a.layer = 1;
    attention::run_attention(*step.stream, test::backend_named(name), a, step.work(0));
    const auto c = test::compare_bits(step.out.as<float>(), baseline);
    EXPECT_TRUE(c.equal) << name << ": " << c.report;
  }
  ::munmap(pool, bytes);
}

}  // namespace
}  // namespace quire
