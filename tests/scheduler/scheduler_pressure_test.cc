// Preemption, two steps in flight, and pools that are too small, one small case each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/rig.h"
#include "scheduler/scheduler.h"

namespace quire::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SchedulerConfig tiny(std::int32_t num_blocks, std::int32_t depth = 1) {
  SchedulerConfig c;
  c.max_num_batched_tokens = 64;
  c.max_num_seqs = 4;
  c.max_model_len = 100;
  c.block_size = 4;
  c.num_blocks = num_blocks;
  c.depth = depth;
  c.enable_prefix_caching = false;
  return c;
}

TEST(SchedulerPreempt, VictimReturnsToTheFrontAndResumesWithAllTokens) {
  Rig rig(tiny(4));
  rig.add(1, Rig::tokens(7));
  rig.add(2, Rig::tokens(6, 200));
  rig.add(3, Rig::tokens(3, 300));  // no block left: waits
  EXPECT_EQ(rig.step(11).size(), 2u);
  EXPECT_EQ(rig.step(12).size(), 2u);  // lengths 9 and 8: the next position of 1 needs a block
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:8+1*")) << "2 lost its blocks, and nobody is admitted in this step";
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 1u);
  EXPECT_EQ(rig.scheduler.stats().num_waiting, 2);
  rig.apply(p, 13);
  p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:9+1*")) << "2 needs 2 blocks and 1 to spare; 3 does not overtake it";
  rig.scheduler.abort(RequestId{1});
  rig.apply(p);
  p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("2:0+8*", "3:0+3*"));
  ASSERT_EQ(p.uploads.size(), 2u);
  std::vector<TokenId> all = Rig::tokens(6, 200);
  all.insert(all.end(), {11, 12});
  EXPECT_EQ(p.uploads[0].tokens, all);
  EXPECT_EQ(p.uploads[0].num_prompt_tokens, 6);
  EXPECT_EQ(p.rows[0].output_index, 2);
  const auto out = rig.apply(p, 14);
  EXPECT_FALSE(out[0].first_scheduled) << "only the first time";
  EXPECT_TRUE(out[1].first_scheduled);
}

TEST(SchedulerPreempt, ResumeUsesThePrefixCacheOverOutputsToo) {
  SchedulerConfig c = tiny(4);
  c.enable_prefix_caching = true;
  Rig rig(c);
  rig.add(1, Rig::tokens(7));
  rig.add(2, Rig::tokens(6, 200));
  rig.step(11);
  rig.step(12);
  rig.step(13);  // 2 is preempted; its first block is still cached, its second one was not full when written
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 1u);
  rig.scheduler.abort(RequestId{1});
  const StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("2:4+4*"));
  EXPECT_EQ(rig.scheduler.stats().prefix_hits, 0u) << "only first admissions count";
}

TEST(SchedulerPreempt, TheLeastImportantWaitsFirstInTheListAndIsTheVictim) {
  SchedulerConfig c = tiny(6);
  c.policy = SchedulingPolicy::kPriority;
  Rig rig(c);
  rig.add(1, Rig::tokens(6), Rig::endless(), 9);
  rig.step(11);  // 1: length 7, two blocks
  rig.add(2, Rig::tokens(15, 200), Rig::endless(), 0);
  rig.step(12);  // 1: length 8; 2: length 16, four blocks: the pool is full
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:7+1*", "2:15+1*"));
  rig.apply(p, 13);  // lengths 9 and 17: both need a block
  p = rig.plan();
  // 1 comes first in the list, is itself the least important, and waits; 2 takes its blocks.
  EXPECT_THAT(rows_of(p), ElementsAre("2:16+1*"));
  EXPECT_EQ(p.block_appends.size(), 1u);
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 1u);
}

TEST(SchedulerPreempt, TokensOfARemovedRowGoBackToTheBudget) {
  SchedulerConfig c = tiny(5);
  c.policy = SchedulingPolicy::kPriority;
  c.block_size = 16;
  c.max_num_batched_tokens = 6;
  Rig rig(c);
  rig.add(1, Rig::tokens(17), Rig::endless(), 9);  // two blocks, the least important
  for (int i = 0; i < 3; ++i) rig.step();
  rig.add(2, Rig::tokens(10, 200), Rig::endless(), 0);
  for (int i = 0; i < 2; ++i) rig.step();
  rig.add(3, Rig::tokens(31, 300), Rig::endless(), 1);  // two blocks, four tokens per step beside the two decodes
  for (int i = 0; i < 6; ++i) EXPECT_EQ(rig.scheduler.stats().num_preemptions + rig.step().size(), i == 0 ? 3u : 2u);
  // 1 is planned first, then loses its blocks to 2: its token goes to the chunk of 3.
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:16+1*", "3:24+5"));
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 1u);
}

TEST(SchedulerPreempt, TheNewestWaitsWithItsBlocksInsteadOfPreemptingItself) {
  Rig rig(tiny(5));
  rig.add(1, Rig::tokens(9));       // three blocks, room to 12
  rig.add(2, Rig::tokens(7, 200));  // two blocks, room to 8
  rig.step();                       // 10, 8
  rig.step();                       // 11, 9: now 2 needs a block
  const StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:10+1*"));
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 0u);
  rig.scheduler.abort(RequestId{1});
  rig.apply(p);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:8+1*")) << "nothing is computed again";
}

TEST(SchedulerPreempt, NobodyIsAdmittedInAStepThatPreempted) {
  SchedulerConfig c = tiny(5);
  c.policy = SchedulingPolicy::kPriority;
  Rig rig(c);
  rig.add(1, Rig::tokens(7), Rig::endless(), 0);
  rig.add(2, Rig::tokens(9, 200), Rig::endless(), 9);
  rig.step();
  rig.add(3, Rig::tokens(5, 300), Rig::endless(), 5);
  rig.step();
  EXPECT_THAT(rows_of(rig.apply_plan()), ElementsAre("1:8+1*")) << "2 gave back three blocks, 3 needs two";
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:9+1*", "3:0+5*"));
}

TEST(SchedulerPool, ASequenceThatOutgrowsThePoolEndsWithAnError) {
  for (const std::int32_t depth : {1, 2}) {
    Rig rig(tiny(2, depth));
    rig.add(1, Rig::tokens(6));
    EXPECT_FALSE(rig.step()[0].finish);  // 7
    EXPECT_FALSE(rig.step()[0].finish);  // 8: the pool is exactly full
    const auto out = rig.step();         // 9
    ASSERT_TRUE(out[0].finish);
    EXPECT_EQ(out[0].token, 7);
    EXPECT_EQ(out[0].finish->reason, FinishReason::kError);
    EXPECT_EQ(out[0].finish->error.value().message, "KV cache pool of 2 blocks is too small for this sequence at 9 tokens; ask for fewer");
    EXPECT_FALSE(rig.scheduler.has_work());
    EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 2);
  }
}

TEST(SchedulerPool, APromptIsNotBegunUnlessItCanEnd) {
  SchedulerConfig c = tiny(8);
  c.long_prefill_token_threshold = 4;
  Rig rig(c);
  rig.add(1, Rig::tokens(19));       // five blocks, one per step
  rig.add(2, Rig::tokens(13, 200));  // four: seven are free now, but four of them are 1's
  for (int i = 0; i < 4; ++i) rig.step();
  EXPECT_THAT(rows_of(rig.apply_plan()), ElementsAre("1:16+3*"));
  rig.scheduler.abort(RequestId{1});
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:0+4"));
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 0u);
}

TEST(SchedulerPreempt, AVictimReturnsOnlyWithABlockToSpareForEachRunningSequence) {
  Rig rig(tiny(5));
  rig.add(1, Rig::tokens(7));
  rig.add(3, Rig::tokens(1, 300));
  rig.add(2, Rig::tokens(6, 200));
  rig.step();
  rig.step();
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:8+1*", "3:2+1*"));  // 2 lost its two blocks, one went to 1
  rig.scheduler.abort(RequestId{3});
  rig.apply(p);
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 2) << "what 2 needs";
  EXPECT_THAT(rows_of(rig.apply_plan()), ElementsAre("1:9+1*")) << "but then the next block of 1 would cost it again";
  rig.scheduler.abort(RequestId{1});
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:0+8*"));
}

TEST(SchedulerDepth2, TheNextStepIsPlannedOnAPlaceholder) {
  Rig rig(tiny(20, 2));
  rig.add(1, Rig::tokens(5));
  const StepPlan a = rig.plan();
  const StepPlan b = rig.plan();
  EXPECT_THAT(rows_of(a), ElementsAre("1:0+5*"));
  EXPECT_THAT(rows_of(b), ElementsAre("1:5+1*"));
  EXPECT_EQ(b.rows[0].output_index, 1);
  EXPECT_FALSE(rig.scheduler.step_plan());
  rig.apply(a);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:6+1*"));
}

TEST(SchedulerDepth2, AnEndIsNoticedOneStepLateAndTheExtraRowIsDropped) {
  Rig rig(tiny(20, 2));
  SamplingParams p = Rig::endless();
  p.eos_token_ids = {2};
  rig.add(1, Rig::tokens(5), p);
  const StepPlan a = rig.plan();
  const StepPlan b = rig.plan();
  const auto out = rig.apply(a, 2);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].finish->reason, FinishReason::kStop);
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 18) << "held until step 2 retires";
  EXPECT_TRUE(rig.scheduler.has_work());
  EXPECT_FALSE(rig.scheduler.step_plan());
  EXPECT_THAT(rig.apply(b, 9), IsEmpty());
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 20);
  EXPECT_FALSE(rig.scheduler.has_work());
}

TEST(SchedulerDepth2, KnownBoundsLeaveNoExtraRow) {
  Rig rig(tiny(20, 2));
  SamplingParams p = Rig::endless();
  p.max_tokens = 1;
  rig.add(1, Rig::tokens(5), p);
  const StepPlan a = rig.plan();
  EXPECT_FALSE(rig.scheduler.step_plan()) << "max_tokens is reached by the step in flight";
  EXPECT_EQ(rig.apply(a)[0].finish->reason, FinishReason::kLength);
  SchedulerConfig c = tiny(20, 2);
  c.max_model_len = 6;
  Rig other(c);
  other.add(1, Rig::tokens(5));
  const StepPlan b = other.plan();
  EXPECT_FALSE(other.scheduler.step_plan());
  EXPECT_EQ(other.apply(b)[0].finish->reason, FinishReason::kLength);
}

TEST(SchedulerDepth2, AStateRowIsNotReusedWhileAStepUsesIt) {
  SchedulerConfig c = tiny(20, 2);
  c.max_num_seqs = 1;
  Rig rig(c);
  SamplingParams p = Rig::endless();
  p.eos_token_ids = {2};
  rig.add(1, Rig::tokens(5), p);
  rig.add(2, Rig::tokens(5, 200));
  const StepPlan a = rig.plan();
  const StepPlan b = rig.plan();
  rig.apply(a, 2);
  EXPECT_FALSE(rig.scheduler.step_plan()) << "step 2 still runs the row of request 1";
  rig.apply(b, 2);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:0+5*"));
}

TEST(SchedulerDepth2, APreemptedVictimInFlightKeepsItsTokenAndFreesWhenItRetires) {
  Rig rig(tiny(4, 2));
  rig.add(1, Rig::tokens(7));
  rig.add(2, Rig::tokens(6, 200));
  rig.add(3, Rig::tokens(1, 300));
  const StepPlan a = rig.plan();  // both whole; lengths 8p, 7p
  const StepPlan b = rig.plan();  // positions 7 and 6
  EXPECT_THAT(rows_of(b), ElementsAre("1:7+1*", "2:6+1*"));
  rig.apply(a, 11);
  // 1 needs a block for position 8. 2 is the victim, but step b uses its blocks: 1 waits for them, 2 is not in the plan.
  EXPECT_FALSE(rig.scheduler.step_plan());
  rig.check();
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 1u);
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 0);
  const auto out = rig.apply(b, 12);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].id, RequestId{2});
  EXPECT_EQ(out[1].token, 12) << "what was computed before the preemption is not lost";
  const StepPlan d = rig.plan();
  EXPECT_THAT(rows_of(d), ElementsAre("1:8+1*"));
  rig.scheduler.abort(RequestId{1});
  rig.apply(d);
  const StepPlan e = rig.plan();
  EXPECT_THAT(rows_of(e), ElementsAre("2:0+8*", "3:0+1*"));
  EXPECT_EQ(e.uploads[0].tokens.back(), 12);
}

TEST(SchedulerDepth2, NobodyElseIsPreemptedWhileBlocksComeBack) {
  Rig rig(tiny(6, 2));
  SamplingParams p = Rig::endless();
  p.eos_token_ids = {2};
  rig.add(1, Rig::tokens(7));
  rig.add(2, Rig::tokens(7, 200));
  rig.add(3, Rig::tokens(6, 300), p);
  const StepPlan a = rig.plan();
  const StepPlan b = rig.plan();  // lengths 9p, 9p, 8p: the pool is full
  rig.apply(a, 2);                // 3 ends; its blocks are free once b retires
  EXPECT_FALSE(rig.scheduler.step_plan());
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 0u);
  rig.apply(b, 7);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:8+1*", "2:8+1*"));
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 0u);
}

// A long prompt in chunks of 12, one other in decode that takes a block which the prompt would have needed.
SchedulerConfig chunks_of_12(std::int32_t num_blocks) {
  SchedulerConfig c = tiny(num_blocks, 2);
  c.long_prefill_token_threshold = 12;
  return c;
}

TEST(SchedulerDepth2, BlocksThatComeBackAreForTheOneWhoWaitsFirst) {
  Rig rig(chunks_of_12(15));
  rig.add(1, Rig::tokens(48));
  rig.add(3, Rig::tokens(6, 300));
  rig.add(2, Rig::tokens(3, 200));
  rig.apply(rig.plan());
  rig.apply(rig.plan());
  const StepPlan third = rig.plan();
  EXPECT_THAT(rows_of(third), ElementsAre("3:7+1*", "2:4+1*", "1:24+12"));
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 2);
  // 1 needs three blocks. 2 is the victim, and step 3 uses its blocks. 3 needs one block and must not take it.
  EXPECT_FALSE(rig.scheduler.step_plan());
  EXPECT_EQ(rig.scheduler.stats().num_preemptions, 1u);
  rig.apply(third);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("3:8+1*", "1:36+12*"));
}

TEST(SchedulerDepth2, AVictimIsNotAdmittedAgainBeforeItsStepRetires) {
  Rig rig(chunks_of_12(13));
  rig.add(1, Rig::tokens(48));
  rig.add(2, Rig::tokens(3, 200));
  rig.apply(rig.plan());
  rig.apply(rig.plan());
  const StepPlan third = rig.plan();
  EXPECT_FALSE(rig.scheduler.step_plan());  // 2 is preempted
  rig.scheduler.abort(RequestId{1});
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 2) << "enough for 2";
  EXPECT_FALSE(rig.scheduler.step_plan()) << "but its last token is not known";
  rig.check();
  EXPECT_EQ(rig.apply(third, 9).size(), 1u);
  const StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("2:0+6*"));
  EXPECT_EQ(p.uploads[0].tokens.back(), 9);
}

}  // namespace
}  // namespace quire::test
