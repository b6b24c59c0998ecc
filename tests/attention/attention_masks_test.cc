// Sliding window, chunked local attention, ALiBi, soft cap and sinks: both CPU backends against the twin, alone and combined, and the same
// bits however a row is computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention/alibi.h"
#include "attention/attention_rig.h"
#include "kit/compare.h"
#include "kit/seed.h"

namespace quire {
namespace {

using reference::AttentionMasks;
using test::PlanOptions;
using test::ShapeCase;

std::string describe(const AttentionMasks& m) {
  return "window " + std::to_string(m.window) + ", chunk " + std::to_string(m.chunk) + ", soft cap " + std::to_string(m.soft_cap) + (m.alibi_slopes.empty() ? "" : ", ALiBi") + (m.sinks.empty() ? "" : ", sinks");
}

std::vector<double> as_doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

// Split and unified: the twin's values, and the same bits.
std::vector<float> check(const test::KvBatch& b, const AttentionMasks& masks, std::int32_t decode_query_len = 1) {
  SCOPED_TRACE(describe(masks));
  test::AttentionStep step(b, 1, {.masks = masks, .decode_query_len = decode_query_len});
  const auto unified = step.run("CPU_UNIFIED");
  test::expect_right(b, step.scale, masks, unified, "CPU_UNIFIED");
  const auto same = test::compare_bits(step.run("CPU_SPLIT"), unified);
  EXPECT_TRUE(same.equal) << "split and unified differ: " << same.report;
  return unified;
}

const std::vector<std::pair<std::int32_t, std::int32_t>> kLens = {{1, 513}, {70, 70}, {0, 3}, {40, 600}, {1, 1}, {2, 66}, {1, 1100}};

TEST(Masks, SlidingWindow) {
  auto rng = test::seeded_rng();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kFp8E4m3}) {
    const auto b = test::make_kv_batch(ShapeCase{.dtype = dtype, .head_dim = 24, .block_size = 32, .lens = kLens}.kv_case(), rng);
    for (const std::int64_t window : {1, 2, 5, 15, 16, 17, 31, 63, 64, 65, 200, 512, 513}) check(b, {.window = window});
  }
}

TEST(Masks, ChunkedLocal) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 24, .block_size = 16, .lens = kLens}.kv_case(), rng);
  for (const std::int64_t chunk : {1, 7, 16, 40, 64, 100, 512, 600, 1099, 1100}) check(b, {.chunk = chunk});
}

// What Llama 4's local layers do, at and around its chunk, after a cached prefix.
TEST(Masks, ChunkOf8192) {
  auto rng = test::seeded_rng();
  for (const std::int32_t n : {8191, 8192, 8193, 20000}) {
    const auto b = test::make_kv_batch(ShapeCase{.dtype = DType::kBF16, .num_heads = 2, .num_kv_heads = 1, .head_dim = 8, .block_size = 64, .lens = {{1, n}, {5, n}}, .padding_rows = 0}.kv_case(), rng);
    const auto got = check(b, {.chunk = 8192});
    check(b, {.chunk = 8192}, 8);  // both are decode rows
    if (n > 8192) continue;
    const auto whole = test::compare_bits(test::AttentionStep(b).run("CPU_SPLIT"), got);
    EXPECT_TRUE(whole.equal) << "within the first chunk there is nothing to hide: " << whole.report;
  }
  // The row at 8192 sees its own key only: its output is its value.
  const auto b = test::make_kv_batch(ShapeCase{.num_heads = 1, .num_kv_heads = 1, .head_dim = 8, .block_size = 16, .lens = {{1, 8193}}, .padding_rows = 0}.kv_case(), rng);
  const auto got = test::AttentionStep(b, 1, {.masks = {.chunk = 8192}}).run("CPU_SPLIT");
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(b.values.at(8192, i)));
}

TEST(Masks, SoftCap) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 40, .lens = kLens, .magnitude = 2.0}.kv_case(), rng);
  for (const double cap : {0.25, 1.0, 20.0, 50.0, 1e4}) check(b, {.soft_cap = cap});
}

TEST(Masks, Alibi) {
  auto rng = test::seeded_rng();
  for (const std::int32_t heads : {1, 2, 3, 6, 8, 12, 20}) {
    const auto slopes = attention::alibi_slopes(heads);
    const auto b = test::make_kv_batch(ShapeCase{.num_heads = heads, .num_kv_heads = heads % 2 == 0 ? 2 : 1, .head_dim = 16, .lens = {{1, 600}, {9, 70}, {5, 5}}}.kv_case(), rng);
    check(b, {.alibi_slopes = as_doubles(slopes)});
  }
}

TEST(Masks, AlibiSlopesAreTheTwins) {
  for (std::int32_t heads = 1; heads <= 128; ++heads) {
    const auto got = attention::alibi_slopes(heads);
    const auto want = reference::alibi_slopes(heads);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], std::ldexp(want[i], -23)) << heads << " heads, head " << i;
  }
  EXPECT_EQ(attention::alibi_slopes(8)[7], 1.0f / 256);
  EXPECT_EQ(attention::alibi_slopes(12)[8], std::sqrt(0.5f)) << "the first of 16 heads' slopes";
}

TEST(Masks, Sinks) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 32, .lens = kLens}.kv_case(), rng);
  const double none = -std::numeric_limits<double>::infinity();
  check(b, {.sinks = {0.0, -3.5, 4.0, 60.0}});
  const auto got = check(b, {.sinks = {none, 1.0, none, -200.0}});
  const auto causal = test::AttentionStep(b).run("CPU_UNIFIED");
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool without = i / 32 % 2 == 0, poison = got[i] != got[i] && causal[i] != causal[i];
    ASSERT_TRUE(!without || poison || got[i] == causal[i]) << "a sink of -inf is none";
  }
  // A row that sees nothing gives zeros whatever its sink.
  test::AttentionStep step(b, 1, {.masks = {.sinks = {0.0, -3.5, 4.0, 60.0}}});
  step.all = {{static_cast<std::int32_t>(kLens.size()), 0, 1, 0}};
  step.counts[2] = 1;
  const auto out = step.run("CPU_UNIFIED");
  for (std::size_t i = out.size() - 128; i < out.size(); ++i) EXPECT_EQ(out[i], 0.0f);
}

// A mask that lets everything through changes no bit.
TEST(Masks, WideMasksAreNoMasks) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.dtype = DType::kBF16, .head_dim = 40, .lens = kLens}.kv_case(), rng);
  const auto causal = test::AttentionStep(b).run("CPU_UNIFIED");
  for (const AttentionMasks& m : {AttentionMasks{.window = 1100}, AttentionMasks{.window = 1 << 30}, AttentionMasks{.chunk = 1100}, AttentionMasks{.window = 2147483647, .chunk = 2147483647}}) {
    const auto same = test::compare_bits(check(b, m), causal);
    EXPECT_TRUE(same.equal) << describe(m) << ": " << same.report;
  }
}

// Blocks before the window may be gone: a table entry that names nothing ends the process if it is followed.
TEST(Masks, BlocksBeforeTheWindowAreNotTouched) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .block_size = 16, .lens = {{1, 1100}, {3, 700}}, .padding_rows = 0}.kv_case(), rng);
  for (const AttentionMasks& m : {AttentionMasks{.window = 37}, AttentionMasks{.window = 600}, AttentionMasks{.chunk = 256}}) {
    const auto want = check(b, m);
    test::AttentionStep step(b, 1, {.masks = m});
    for (std::size_t s = 0; s < 2; ++s) {
      const std::int64_t first = reference::first_visible(m, b.shape.seq_lens[s] - b.shape.query_lens[s]) / 16;
      std::fill_n(step.tables.begin() + static_cast<std::ptrdiff_t>(2 * (1 - s) + 1) * step.table_stride, first, 1 << 30);
    }
    for (const char* backend : test::kBackends) {
      const auto same = test::compare_bits(step.run(backend), want);
      EXPECT_TRUE(same.equal) << backend << ", " << describe(m) << ": " << same.report;
    }
  }
}

AttentionMasks random_masks(std::mt19937_64& rng, std::int32_t heads, std::int32_t longest) {
  AttentionMasks m;
  const auto up_to = [&](std::int32_t most) { return static_cast<std::int64_t>(1 + rng() % static_cast<std::uint64_t>(most)); };
  if (rng() % 2 == 0) m.window = up_to(rng() % 2 == 0 ? 20 : longest);
  if (rng() % 2 == 0) m.chunk = up_to(rng() % 2 == 0 ? 40 : longest);
  if (rng() % 2 == 0) m.soft_cap = static_cast<double>(up_to(60)) / 2;
  if (rng() % 2 == 0) m.alibi_slopes = as_doubles(attention::alibi_slopes(heads));
  if (rng() % 2 == 0)
    for (std::int32_t h = 0; h < heads; ++h) m.sinks.push_back(static_cast<double>(static_cast<std::int64_t>(rng() % 200) - 100) / 8);
  return m;
}

// Every head size of the table's rows with all masks at once, the window smaller than a block.
TEST(Masks, EveryHeadSize) {
  auto rng = test::seeded_rng();
  for (const std::int32_t d : {32, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256}) {
    const auto b = test::make_kv_batch(ShapeCase{.dtype = DType::kBF16, .num_heads = 6, .num_kv_heads = 2, .head_dim = d, .block_size = 32, .lens = {{1, 530}, {7, 90}, {20, 20}}}.kv_case(), rng);
    AttentionMasks all{.window = 19, .soft_cap = 30.0, .alibi_slopes = as_doubles(attention::alibi_slopes(6)), .sinks = {0.5, -1.0, 2.0, 0.0, 3.0, -4.0}};
    check(b, all);
    all.window = 0;
    all.chunk = 100;
    check(b, all, 8);
  }
}

TEST(MasksProperty, RandomShapesAndMasksCombined) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 40; ++round) {
    const std::int32_t kv_heads = 1 + static_cast<std::int32_t>(rng() % 3), group = 1 + static_cast<std::int32_t>(rng() % 9);
    test::KvCase c = ShapeCase{.dtype = std::array{DType::kF32, DType::kF16, DType::kBF16, DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2}[rng() % 6], .num_heads = kv_heads * group, .num_kv_heads = kv_heads,
                               .head_dim = 8 + 2 * static_cast<std::int32_t>(rng() % 30), .block_size = 16 * (1 + static_cast<std::int32_t>(rng() % 5)), .padding_rows = 2}.kv_case();
    const std::int32_t longest = round % 4 == 0 ? 700 : 130;
    test::randomise_lengths(c, rng, round % 4 == 0 ? 2 : 5, longest);
    for (auto& q : c.query_lens) q = std::min(q, 60);
    const test::KvBatch b = test::make_kv_batch(c, rng);
    const AttentionMasks masks = random_masks(rng, c.num_heads, longest);
    const auto decode_len = 1 + static_cast<std::int32_t>(rng() % 8);
    const auto whole = check(b, masks, decode_len);
    // A sequence alone, in two chunks of any size, by either backend: the same bits.
    const std::size_t s = rng() % c.seq_lens.size();
    if (c.query_lens[s] < 1) continue;
    const auto cut = static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(c.query_lens[s]));
    std::vector<float> joined;
    for (const auto& [first, count] : {std::pair{0, cut}, std::pair{cut, c.query_lens[s] - cut}}) {
      if (count == 0) continue;
      const test::KvBatch part = test::part_of(b, s, first, count);
      const auto got = test::AttentionStep(part, 2, {.masks = masks, .decode_query_len = 9 - decode_len}).run(test::kBackends[rng() % 2]);
      joined.insert(joined.end(), got.begin(), got.end());
    }
    const auto same = test::compare_bits(joined, test::rows_of(b, whole, s));
    EXPECT_TRUE(same.equal) << "round " << round << ", " << describe(masks) << ", sequence " << s << " cut at " << cut << ": " << same.report;
  }
}

}  // namespace
}  // namespace quire
