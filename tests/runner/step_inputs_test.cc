// A step plan as flat arrays: positions, slots, work lists and rows of logits, for chunks, decodes and scored prompts.
#include <gtest/gtest.h>

#include <set>

#include "kit/seed.h"
#include "runner/step_inputs.h"

namespace quire::runner {
namespace {

RowPlan row(std::int32_t state, std::int32_t computed, std::int32_t num_new, bool samples, bool scores = false) {
  RowPlan r;
  r.row = StateRow{state};
  r.request = RequestId{static_cast<std::uint64_t>(state)};
  r.num_computed = computed;
  r.num_new = num_new;
  r.samples = samples;
  r.scores_prompt = scores;
  return r;
}

std::vector<RowState> states() {
  std::vector<RowState> s(3);
  for (std::size_t i = 0; i < s.size(); ++i) s[i].request = RequestId{i};
  s[0].blocks = {9, 4};
  s[1].blocks = {2};
  s[2].blocks = {7, 1, 5};
  s[2].num_prompt_tokens = 40;
  return s;
}

TEST(StepInputs, DecodeExtendAndPrefill) {
  StepPlan plan;
  plan.rows = {row(0, 17, 1, true), row(2, 16, 20, false, true), row(1, 0, 3, true)};
  plan.num_tokens = 24;
  StepInputs in;
  build_inputs(plan, states(), 16, {.group = 2}, in);
  EXPECT_EQ(in.query_start, (std::vector<std::int32_t>{0, 1, 21, 24}));
  EXPECT_EQ(in.seq_lens, (std::vector<std::int32_t>{18, 36, 3}));
  EXPECT_EQ(in.slots[0], 4 * 16 + 1);
  EXPECT_EQ(in.slots[1], 1 * 16);
  EXPECT_EQ(in.slots[20], 5 * 16 + 3);
  EXPECT_EQ(in.slots[23], 2 * 16 + 2);
  EXPECT_EQ(in.work_counts, (std::vector<std::int32_t>{1, 3, 4, 1}));
  // The extend row is scored at positions 17 .. 36 and not sampled; the others give one sampled row each.
  EXPECT_EQ(in.logits_begin, (std::vector<std::int32_t>{0, 1, 21, 22}));
  EXPECT_EQ(in.logits_rows[1].position, 17);
  EXPECT_EQ(in.token_rows[1], 1);
  EXPECT_EQ(in.logits_rows[20].position, 36);
  EXPECT_EQ(in.token_rows[20], 20);
  EXPECT_EQ(in.logits_rows[21].use, ops::LogitsUse::kSample);
  EXPECT_EQ(in.token_rows[21], 23);
}

// The last prompt position predicts an output, which is sampled, never scored.
TEST(StepInputs, ScoringEndsWithThePrompt) {
  StepPlan plan;
  plan.rows = {row(2, 36, 4, true, true)};
  plan.num_tokens = 4;
  StepInputs in;
  build_inputs(plan, states(), 16, {.group = 2}, in);
  ASSERT_EQ(in.logits_rows.size(), 4u);
  EXPECT_EQ(in.logits_rows[2].position, 39);
  EXPECT_EQ(in.logits_rows[2].use, ops::LogitsUse::kScore);
  EXPECT_EQ(in.logits_rows[3].position, 40);
  EXPECT_EQ(in.logits_rows[3].use, ops::LogitsUse::kSample);
}

// What a recorded step finds beyond the batch: rows and tokens that own nothing, read nothing and write nothing.
TEST(StepInputs, PaddingHasDefinedValues) {
  StepPlan plan;
  plan.rows = {row(0, 17, 1, true), row(1, 0, 3, true)};
  plan.num_tokens = 4;
  StepInputs batch, padded, tokens_only;
  for (StepInputs* in : {&batch, &padded, &tokens_only}) build_inputs(plan, states(), 16, {.group = 2}, *in);
  pad_inputs(padded, 8, 5);
  pad_inputs(tokens_only, 8, 0);
  for (const StepInputs* in : {&padded, &tokens_only}) {
    EXPECT_EQ(in->row_of_token, (std::vector<std::int32_t>{0, 1, 1, 1, -1, -1, -1, -1}));
    EXPECT_EQ(in->positions, (std::vector<std::int32_t>{17, 0, 1, 2, 0, 0, 0, 0}));
    ASSERT_EQ(in->slots.size(), 8u);
    EXPECT_TRUE(std::equal(batch.slots.begin(), batch.slots.end(), in->slots.begin()));
    for (std::size_t t = 4; t < 8; ++t) EXPECT_TRUE(SlotId{in->slots[t]}.is_none());
    EXPECT_EQ(in->work_counts, batch.work_counts);
    EXPECT_EQ(in->token_rows, batch.token_rows);
  }
  EXPECT_EQ(padded.seq_lens, (std::vector<std::int32_t>{18, 3, 0, 0, 0}));
  EXPECT_EQ(padded.query_start, (std::vector<std::int32_t>{0, 1, 4, 4, 4, 4})) << "no tokens of their own";
  EXPECT_EQ(tokens_only.seq_lens, batch.seq_lens) << "attention runs outside the graph";
  EXPECT_EQ(tokens_only.query_start, batch.query_start);
}

TEST(StepInputsDeath, ABatchLargerThanItsGraphEndsTheProcess) {
  StepPlan plan;
  plan.rows = {row(0, 17, 1, true), row(1, 0, 3, true)};
  plan.num_tokens = 4;
  StepInputs in;
  build_inputs(plan, states(), 16, {.group = 2}, in);
  EXPECT_DEATH(pad_inputs(in, 3, 2), "");
  EXPECT_DEATH(pad_inputs(in, 8, 1), "");
}

// Random batches: every query token is in exactly one entry of exactly one list, and lists match the row's class.
TEST(StepInputs, EachTokenIsOwnedOnce) {
  auto rng = test::seeded_rng();
  for (int round = 0; round < 200; ++round) {
    std::vector<attention::RowLengths> rows(1 + rng() % 40);
    for (auto& r : rows) {
      r.num_new = static_cast<std::int32_t>(rng() % 3 == 0 ? 1 : 1 + rng() % 100);
      r.num_computed = static_cast<std::int32_t>(rng() % 2 == 0 ? 0 : rng() % 500);
    }
    const auto group = static_cast<std::int32_t>(1 + rng() % 32);
    attention::AttnPlan plan;
    attention::build_plan(rows, {.group = group}, plan);
    std::set<std::pair<int, int>> owned;
    const auto take = [&](const std::vector<attention::AttnWork>& list, attention::RowClass cls) {
      for (const auto& w : list) {
        const auto& r = rows[static_cast<std::size_t>(w.row)];
        EXPECT_EQ(attention::row_class(r.num_computed, r.num_new), cls);
        EXPECT_LE(w.q_count * group, std::max(attention::kMaxRows, group));
        for (int q = w.q_begin; q < w.q_begin + w.q_count; ++q) EXPECT_TRUE(owned.emplace(w.row, q).second);
      }
    };
    take(plan.decode, attention::RowClass::kDecode);
    take(plan.extend, attention::RowClass::kExtend);
    take(plan.prefill, attention::RowClass::kPrefill);
    std::size_t tokens = 0;
    for (const auto& r : rows) tokens += static_cast<std::size_t>(r.num_new);
    EXPECT_EQ(owned.size(), tokens);
  }
}

}  // namespace
}  // namespace quire::runner
