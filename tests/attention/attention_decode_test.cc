// The split decode kernel with its combine: the same bits however many slots there are, ragged query lengths, launches and workspace.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "attention/attention_rig.h"
#include "attention/cpu_kernels.h"
#include "attention/workspace.h"
#include "device/workspace.h"
#include "kit/compare.h"
#include "kit/seed.h"

namespace quire {
namespace {

using attention::AttnPlan;
using attention::AttnWork;
using attention::DecodeLimits;
using attention::DecodePart;
using attention::RowLengths;
using test::PlanOptions;
using test::ShapeCase;

TEST(PlanProperty, EveryTokenAndPartitionOnceAndSlotsApart) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 300; ++round) {
    std::vector<RowLengths> rows(rng() % 12);
    for (auto& r : rows) r = RowLengths{static_cast<std::int32_t>(rng() % 4 == 0 ? 0 : rng() % 3000), 1 + static_cast<std::int32_t>(rng() % (rng() % 2 == 0 ? 8 : 100)), 5};
    const attention::PlanRules rules{.group = 1 + static_cast<std::int32_t>(rng() % 32), .decode_query_len = 1 + static_cast<std::int32_t>(rng() % 8), .partial_slots = static_cast<std::int64_t>(rng() % 80)};
    AttnPlan plan;
    attention::build_plan(rows, rules, plan);
    std::map<std::pair<std::int32_t, std::int32_t>, int> owners;
    for (const auto* list : {&plan.decode, &plan.extend, &plan.prefill})
      for (const AttnWork& w : *list) {
        const RowLengths& row = rows[static_cast<std::size_t>(w.row)];
        ASSERT_LE(w.q_count * rules.group, std::max(attention::kMaxRows, rules.group));
        ASSERT_EQ(list == &plan.decode, row.num_new <= rules.decode_query_len);
        ASSERT_EQ(list == &plan.prefill, row.num_new > rules.decode_query_len && row.num_computed == 0);
        for (std::int32_t q = w.q_begin; q < w.q_begin + w.q_count; ++q) ++owners[{w.row, q}];
      }
    std::size_t tokens = 0;
    for (const auto& r : rows) tokens += static_cast<std::size_t>(r.num_new);
    ASSERT_EQ(owners.size(), tokens);
    for (const auto& [token, count] : owners) ASSERT_EQ(count, 1) << "row " << token.first << ", token " << token.second;
    std::vector<std::set<std::int32_t>> parts(plan.decode.size());
    for (const DecodePart& part : plan.decode_parts) ASSERT_TRUE(parts.at(static_cast<std::size_t>(part.entry)).insert(part.partition).second) << "twice";
    std::set<std::int64_t> slots;
    std::int32_t split = 0;
    for (std::size_t i = 0; i < plan.decode.size(); ++i) {
      const AttnWork& w = plan.decode[i];
      if (w.slot < 0) {
        ASSERT_EQ(parts[i], std::set<std::int32_t>{attention::kAllPartitions});
        continue;
      }
      ++split;
      const std::int32_t partitions = (rows[static_cast<std::size_t>(w.row)].num_computed + w.q_begin + w.q_count + attention::kPartitionTokens - 1) / attention::kPartitionTokens;
      ASSERT_GE(partitions, 2);
      ASSERT_EQ(std::ssize(parts[i]), partitions);
      ASSERT_EQ(*parts[i].begin(), 0);
      ASSERT_EQ(*parts[i].rbegin(), partitions - 1);
      for (std::int64_t s = w.slot; s < w.slot + std::int64_t{partitions} * w.q_count; ++s) ASSERT_TRUE(slots.insert(s).second && s < rules.partial_slots) << "slot " << s;
    }
    ASSERT_EQ(split, plan.num_split);
  }
}

TEST(SplitDecode, SlotsNeverChangeTheBits) {
  auto rng = test::seeded_rng();
  for (const auto& [heads, kv_heads] : {std::pair{8, 2}, std::pair{7, 1}, std::pair{32, 1}, std::pair{3, 3}}) {
    const auto b = test::make_kv_batch(ShapeCase{.dtype = DType::kBF16, .num_heads = heads, .num_kv_heads = kv_heads, .head_dim = 40, .lens = {{1, 2100}, {1, 512}, {1, 513}, {1, 1}, {1, 1024}, {1, 1537}}}.kv_case(), rng);
    const auto want = test::AttentionStep(b).run("CPU_UNIFIED");
    // Five, two, two and four partitions are asked for in this order.
    for (const auto& [slots, num_split] : {std::pair{0, 0}, {1, 0}, {2, 1}, {4, 2}, {5, 1}, {7, 2}, {8, 2}, {9, 3}, {12, 3}, {13, 4}, {64, 4}})
      for (const int threads : {1, 3}) {
        test::AttentionStep step(b, threads, {.partial_slots = slots});
        EXPECT_EQ(step.num_split, num_split) << slots;
        const auto same = test::compare_bits(step.run("CPU_SPLIT"), want);
        EXPECT_TRUE(same.equal) << heads << "/" << kv_heads << " heads, " << slots << " slots, " << threads << " threads: " << same.report;
      }
  }
}

// Drafted tokens: rows of 1 to 8, each as many as it has.
TEST(SplitDecode, RaggedQueryLengths) {
  auto rng = test::seeded_rng();
  for (const auto& [heads, kv_heads] : {std::pair{4, 4}, std::pair{8, 1}, std::pair{32, 1}}) {
    const auto b = test::make_kv_batch(
        ShapeCase{.dtype = DType::kF16, .num_heads = heads, .num_kv_heads = kv_heads, .head_dim = 16, .lens = {{8, 1030}, {1, 600}, {3, 513}, {5, 515}, {2, 2}, {7, 700}, {9, 520}, {6, 6}, {4, 1500}}}.kv_case(), rng);
    test::AttentionStep eager(b);
    const auto want = eager.run("CPU_UNIFIED");
    test::expect_right(b, eager.scale, {}, want, "CPU_UNIFIED");
    for (const std::int32_t query_len : {1, 2, 5, 8})
      for (const std::int64_t slots : {0, 20, 200}) {
        test::AttentionStep step(b, 2, {.decode_query_len = query_len, .partial_slots = slots});
        std::set<std::int32_t> rows;  // one of each length is in the batch
        for (const AttnWork& w : step.decode) rows.insert(w.row);
        EXPECT_EQ(std::ssize(rows), query_len);
        const auto same = test::compare_bits(step.run("CPU_SPLIT"), want);
        EXPECT_TRUE(same.equal) << "decode rows up to " << query_len << ", " << slots << " slots: " << same.report;
      }
  }
}

TEST(SplitDecode, LaunchesOnlyWhatThereIs) {
  auto rng = test::seeded_rng();
  struct Expect {
    std::vector<std::pair<std::int32_t, std::int32_t>> lens;
    std::uint64_t launches;
    std::size_t units;  // of the decode kernel, per KV head
  };
  for (const Expect& e : {Expect{{{1, 512}}, 1, 1}, Expect{{{1, 513}}, 2, 2}, Expect{{{1, 5}, {1, 2049}}, 2, 6}, Expect{{{1, 600}, {4, 9}}, 3, 2}, Expect{{{9, 2000}}, 1, 0}, Expect{{{0, 9}}, 0, 0}}) {
    const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .lens = e.lens}.kv_case(), rng);
    test::AttentionStep step(b);
    (void)step.run("CPU_SPLIT");
    EXPECT_EQ(step.stream->num_launches(), e.launches);
    EXPECT_EQ(step.parts.size(), e.units);
  }
}

// A recorded step has its full geometry; with all counts 0 it computes nothing, and then any plan that fits.
TEST(SplitDecode, RecordedGeometryRunsZeroUnitsOrAnyPlan) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .lens = {{1, 1100}, {1, 40}, {1, 513}}}.kv_case(), rng);
  test::AttentionStep step(b, 2);
  const auto want = step.run("CPU_SPLIT");
  device::Graph graph;
  const auto parts = step.parts;
  const auto decode = step.decode;
  std::fill(step.parts.begin(), step.parts.end(), DecodePart{-9, -9});
  std::fill(step.decode.begin(), step.decode.end(), AttnWork{-9, -9, -9, -9, -9});
  step.stream->begin_record(graph);
  step.launch(*step.stream, "CPU_SPLIT", 30);
  step.stream->end_record();
  EXPECT_EQ(graph.launches.size(), 3u) << "decode, combine and prefill are all recorded";
  std::copy(parts.begin(), parts.end(), step.parts.begin());
  std::copy(decode.begin(), decode.end(), step.decode.begin());
  expect_replays(step, graph, want, "CPU_SPLIT");
}

TEST(SplitDecodeDeath, APartWithoutRoomEndsTheProcess) {
  auto rng = test::seeded_rng();
  const auto b = test::make_kv_batch(ShapeCase{.head_dim = 16, .lens = {{1, 600}}}.kv_case(), rng);
  test::AttentionStep step(b);
  for (auto& w : step.decode) w.slot = -1;
  EXPECT_DEATH((void)step.run("CPU_SPLIT"), "no room");
}

TEST(AttentionWorkspaceSize, HoldsWhatPlansUse) {
  const DecodeLimits base{.max_rows = 3, .max_seq_len = 2000, .num_heads = 8, .num_kv_heads = 2, .head_dim = 40};
  const auto& split = test::backend_named("CPU_SPLIT");
  EXPECT_EQ(attention::partial_slots(test::backend_named("CPU_UNIFIED"), base), 0);
  EXPECT_EQ(attention::partial_slots(split, base), 12) << "four partitions a row";
  DecodeLimits many = base, longest = base;
  many.max_rows = 1000;
  EXPECT_EQ(attention::partial_slots(split, many), attention::kSplitPartials);
  longest.max_rows = 64;
  longest.max_seq_len = 1 << 20;
  EXPECT_EQ(attention::partial_slots(split, longest), 2048) << "one row of the longest length always fits";
  for (const DecodeLimits& l : {base, many, longest}) {
    attention::AttentionWorkspace w;
    device::WorkspaceCounter counter;
    w.visit(counter, split, l);
    const auto slots = static_cast<std::size_t>(attention::partial_slots(split, l));
    EXPECT_EQ(counter.bytes(), round_up(slots * 8 * 40 * 4, std::size_t{256}) + round_up(slots * 8 * 2 * 4, std::size_t{256}));
    std::vector<RowLengths> rows(static_cast<std::size_t>(l.max_rows), RowLengths{static_cast<std::int32_t>(l.max_seq_len) - 1, 1, 0});
    AttnPlan plan;
    attention::build_plan(rows, {.group = 4, .partial_slots = attention::partial_slots(split, l)}, plan);
    EXPECT_LE(std::ssize(plan.decode_parts), attention::max_decode_parts(split, l));
    EXPECT_GE(plan.num_split, 1);
  }
}

}  // namespace
}  // namespace quire
