// Admission, budget, row order, ends and the prefix cache, one small case each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "scheduler/rig.h"
#include "scheduler/scheduler.h"

namespace quire::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SchedulerConfig small() {
  SchedulerConfig c;
  c.max_num_batched_tokens = 32;
  c.max_num_seqs = 4;
  c.max_model_len = 100;
  c.block_size = 16;
  c.num_blocks = 20;
  return c;
}

Status try_add(Scheduler& s, int prompt_len) {
  return s.add(
      SequenceSpec{.id = RequestId{1}, .prompt = Rig::tokens(prompt_len), .sampling = std::make_shared<SamplingParams>(), .cache_namespace = {}});
}

TEST(SchedulerAdd, RefusesWhatCanNeverRun) {
  Scheduler s(small());
  const Status empty = try_add(s, 0);
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(empty.error().param, "prompt");
  const Status full = try_add(s, 100);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(full.error().message, HasSubstr("99"));
  EXPECT_FALSE(s.has_work());
  EXPECT_TRUE(try_add(s, 99).ok());
  EXPECT_TRUE(s.has_work());
}

TEST(SchedulerAdd, RefusesAPromptThatOutgrowsThePoolWithItsFirstToken) {
  SchedulerConfig c = small();
  c.num_blocks = 2;
  Scheduler s(c);
  const Status st = try_add(s, 32);
  ASSERT_FALSE(st.ok());
  EXPECT_EQ(st.error().code, ErrorCode::kInvalidArgument) << "waiting would not help";
  EXPECT_THAT(st.error().message, HasSubstr("needs 3 KV blocks"));
  EXPECT_TRUE(try_add(s, 31).ok());
}

TEST(SchedulerDeathTest, OurOwnMistakesStop) {
  Scheduler s(small());
  ASSERT_TRUE(try_add(s, 5).ok());
  EXPECT_DEATH((void)try_add(s, 5), "is here already");
  EXPECT_DEATH((void)s.apply(StepResult{.step_id = 1, .rows = {}}), "not in flight");
  SchedulerConfig c = small();
  c.enable_chunked_prefill = false;
  EXPECT_DEATH(Scheduler{c}, "must reach max_model_len");
  const auto plan = s.step_plan();
  ASSERT_TRUE(plan);
  EXPECT_DEATH((void)s.apply(StepResult{.step_id = 2, .rows = {}}), "step order");
  EXPECT_DEATH((void)s.apply(StepResult{.step_id = 1, .rows = {}}), "rows.size");
  EXPECT_DEATH((void)s.apply(StepResult{
                   .step_id = 1, .rows = {RowResult{.request = RequestId{9}, .token = 3, .logprobs = {}, .prompt_logprobs = {}, .failure = {}}}}),
               "request");
  EXPECT_DEATH((void)s.apply(StepResult{
                   .step_id = 1, .rows = {RowResult{.request = RequestId{1}, .token = {}, .logprobs = {}, .prompt_logprobs = {}, .failure = {}}}}),
               "token");
}

TEST(SchedulerPlan, ChunksThenDecodes) {
  Rig rig(small());
  rig.add(1, Rig::tokens(40));
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:0+32"));
  ASSERT_EQ(p.uploads.size(), 1u);
  EXPECT_EQ(p.uploads[0].tokens, Rig::tokens(40));
  EXPECT_EQ(p.uploads[0].num_prompt_tokens, 40);
  ASSERT_EQ(p.block_appends.size(), 1u);
  EXPECT_EQ(p.block_appends[0].blocks.size(), 2u);
  const auto first = rig.apply(p);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(first[0].first_scheduled);
  EXPECT_FALSE(first[0].token);
  p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:32+8*"));
  EXPECT_TRUE(p.uploads.empty());
  const auto second = rig.apply(p);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_FALSE(second[0].first_scheduled);
  EXPECT_EQ(second[0].token, 7);
  p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:40+1*"));
  EXPECT_EQ(p.rows[0].output_index, 1);
  EXPECT_TRUE(p.block_appends.empty());
}

TEST(SchedulerPlan, RunningComesBeforeWaitingUnderOneBudget) {
  Rig rig(small());
  rig.add(1, Rig::tokens(10));
  rig.add(2, Rig::tokens(50, 200));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:0+10*", "2:0+22"));
  rig.scheduler.abort(RequestId{99});  // unknown: ignored
}

TEST(SchedulerPlan, RowsAreDecodeThenExtendThenPrefill) {
  SchedulerConfig c = small();
  c.max_num_batched_tokens = 24;
  Rig rig(c);
  rig.add(1, Rig::tokens(40));
  rig.step();  // 1: 24 of 40
  rig.add(2, Rig::tokens(5, 200));
  rig.step();  // 1: 16, done; 2: 5
  rig.add(3, Rig::tokens(40, 300));
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:40+1*", "2:5+1*", "3:0+22"));
  rig.apply(p);
  rig.add(4, Rig::tokens(1, 400));
  p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:41+1*", "2:6+1*", "3:22+18*", "4:0+1*"));
  EXPECT_EQ(p.num_tokens, 21);
}

TEST(SchedulerPlan, LongPrefillThresholdLeavesRoomForOthers) {
  SchedulerConfig c = small();
  c.long_prefill_token_threshold = 10;
  Rig rig(c);
  rig.add(1, Rig::tokens(40));
  rig.add(2, Rig::tokens(8, 200));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:0+10", "2:0+8*"));
}

TEST(SchedulerPlan, WithoutChunkedPrefillAPromptIsWholeOrWaits) {
  SchedulerConfig c = small();
  c.enable_chunked_prefill = false;
  c.max_num_batched_tokens = 100;
  c.long_prefill_token_threshold = 10;
  Rig rig(c);
  rig.add(1, Rig::tokens(60));
  rig.add(2, Rig::tokens(41, 200));
  rig.add(3, Rig::tokens(5, 300));  // would fit, but nobody overtakes
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:0+60*"));
  rig.apply(p);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:60+1*", "2:0+41*", "3:0+5*"));
}

TEST(SchedulerPlan, MaxNumSeqsAndRowsAreBounds) {
  SchedulerConfig c = small();
  c.max_num_seqs = 2;
  Rig rig(c);
  for (std::uint64_t i = 1; i <= 3; ++i) rig.add(i, Rig::tokens(4, static_cast<TokenId>(100 * i)));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:0+4*", "2:0+4*"));
  EXPECT_EQ(rig.scheduler.stats().num_waiting, 1);
  EXPECT_FALSE(rig.scheduler.step_plan()) << "depth 1: one step in flight";
}

TEST(SchedulerPlan, PriorityOrdersTheQueueAndFcfsDoesNot) {
  for (const auto policy : {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority}) {
    SchedulerConfig c = small();
    c.policy = policy;
    Rig rig(c);
    rig.add(1, Rig::tokens(4), Rig::endless(), 5);
    rig.add(2, Rig::tokens(4, 200), Rig::endless(), -1);
    rig.add(3, Rig::tokens(4, 300), Rig::endless(), 5);
    if (policy == SchedulingPolicy::kFcfs) {
      EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:0+4*", "2:0+4*", "3:0+4*"));
    } else {
      EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:0+4*", "1:0+4*", "3:0+4*"));
    }
  }
}

struct EndCase {
  const char* name;
  SamplingParams params;
  std::vector<TokenId> sampled;  // one by one, until the last ends the sequence
  FinishReason reason;
  std::optional<TokenId> stop_token;
};

SamplingParams with(std::int32_t max_tokens, std::vector<TokenId> eos, std::vector<TokenId> stop, bool ignore_eos = false,
                    std::int32_t min_tokens = 0) {
  SamplingParams p;
  p.max_tokens = max_tokens;
  p.eos_token_ids = std::move(eos);
  p.stop_token_ids = std::move(stop);
  p.ignore_eos = ignore_eos;
  p.min_tokens = min_tokens;
  return p;
}

TEST(SchedulerEnd, Table) {
  const std::vector<EndCase> cases = {
      {"eos", with(9, {2, 3}, {}), {7, 3}, FinishReason::kStop, std::nullopt},
      {"stop id", with(9, {2}, {5}), {7, 5}, FinishReason::kStop, 5},
      {"eos before stop id", with(9, {5}, {5}), {5}, FinishReason::kStop, std::nullopt},
      {"ignored eos that is a stop id", with(9, {5}, {5}, true), {5}, FinishReason::kStop, 5},
      {"ignored eos", with(3, {2}, {}, true), {2, 2, 2}, FinishReason::kLength, std::nullopt},
      {"max_tokens", with(2, {}, {}), {7, 7}, FinishReason::kLength, std::nullopt},
      {"eos at max_tokens is a stop", with(2, {2}, {}), {7, 2}, FinishReason::kStop, std::nullopt},
      {"not before min_tokens", with(9, {2}, {5}, false, 2), {2, 5, 2}, FinishReason::kStop, std::nullopt},
      {"min_tokens is not a licence to go on", with(2, {2}, {}, false, 2), {2, 2}, FinishReason::kLength, std::nullopt},
  };
  for (const EndCase& e : cases) {
    SCOPED_TRACE(e.name);
    Rig rig(small());
    rig.add(1, Rig::tokens(4), e.params);
    for (std::size_t i = 0; i < e.sampled.size(); ++i) {
      const auto out = rig.step(e.sampled[i]);
      ASSERT_EQ(out.size(), 1u);
      EXPECT_EQ(out[0].token, e.sampled[i]);
      ASSERT_EQ(out[0].finish.has_value(), i + 1 == e.sampled.size());
      if (!out[0].finish) continue;
      EXPECT_EQ(out[0].finish->reason, e.reason);
      EXPECT_EQ(out[0].finish->stop_token, e.stop_token);
    }
    EXPECT_FALSE(rig.scheduler.has_work());
    EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 20);
  }
}

TEST(SchedulerEnd, MaxModelLen) {
  SchedulerConfig c = small();
  c.max_model_len = 6;
  Rig rig(c);
  rig.add(1, Rig::tokens(4));
  EXPECT_FALSE(rig.step()[0].finish);
  const auto out = rig.step();
  ASSERT_TRUE(out[0].finish);
  EXPECT_EQ(out[0].finish->reason, FinishReason::kLength);
}

TEST(SchedulerEnd, AFailedRowFailsAloneAndItsBlocksLeaveTheCache) {
  Rig rig(small());
  rig.add(1, Rig::tokens(20));
  rig.step();
  rig.add(2, Rig::tokens(20));  // shares the first block with 1
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:20+1*", "2:16+4*"));
  const auto out = rig.apply(p, 7, Error{ErrorCode::kInternal, "NaN", {}});
  ASSERT_EQ(out.size(), 2u);
  ASSERT_TRUE(out[0].finish);
  EXPECT_EQ(out[0].finish->reason, FinishReason::kError);
  EXPECT_EQ(out[0].finish->error.value().message, "NaN");
  EXPECT_FALSE(out[0].token);
  EXPECT_FALSE(out[1].finish);
  rig.add(3, Rig::tokens(20));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:20+1*", "3:0+20*"));
}

// Parameters that leave no token say nothing about what was computed: another request may go on using it.
TEST(SchedulerEnd, ARowThatIsTheCallersMistakeFailsAloneAndItsBlocksStayCached) {
  Rig rig(small());
  rig.add(1, Rig::tokens(20));
  rig.step();
  const auto out = rig.apply(rig.plan(), 7, invalid("every token is masked", "bad_words"));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].finish->reason, FinishReason::kError);
  EXPECT_EQ(out[0].finish->error.value().code, ErrorCode::kInvalidArgument);
  rig.add(2, Rig::tokens(20));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:16+4*"));
}

TEST(SchedulerEnd, AFailedStepEndsItsSequencesOnly) {
  SchedulerConfig c = small();
  c.max_num_seqs = 1;
  Rig rig(c);
  rig.add(1, Rig::tokens(20));
  rig.add(2, Rig::tokens(20));
  const StepPlan p = rig.plan();
  const auto out = rig.scheduler.fail_step(p.step_id, "device lost");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].id, RequestId{1});
  EXPECT_EQ(out[0].finish->error.value().message, "device lost");
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:0+20*")) << "nothing of the failed step is cached";
}

TEST(SchedulerEnd, AbortFreesAtOnceWhenNoStepIsInFlight) {
  Rig rig(small());
  rig.add(1, Rig::tokens(20));
  rig.step();
  rig.scheduler.abort(RequestId{1});
  rig.check();
  EXPECT_FALSE(rig.scheduler.has_work());
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 20);
  rig.scheduler.abort(RequestId{1});
  rig.add(1, Rig::tokens(20));  // the id is free again
}

TEST(SchedulerEnd, AbortInFlightHoldsBlocksUntilTheStepRetires) {
  Rig rig(small());
  rig.add(1, Rig::tokens(20));
  const StepPlan p = rig.plan();
  rig.scheduler.abort(RequestId{1});
  rig.check();
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 18);
  EXPECT_EQ(rig.scheduler.stats().num_running, 0);
  EXPECT_TRUE(rig.scheduler.has_work());
  EXPECT_TRUE(rig.apply(p).empty());
  EXPECT_EQ(rig.scheduler.stats().num_blocks_free, 20);
  EXPECT_FALSE(rig.scheduler.has_work());
}

TEST(SchedulerCache, HitsFullBlocksButNeverTheLastToken) {
  Rig rig(small());
  SamplingParams one = Rig::endless();
  one.max_tokens = 1;
  rig.add(1, Rig::tokens(32), one);
  EXPECT_EQ(rig.step()[0].num_cached_tokens, 0);
  rig.add(2, Rig::tokens(32), one);  // both blocks are cached, the last token must still run
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("2:16+16*"));
  EXPECT_EQ(p.block_appends[0].blocks.size(), 2u);
  EXPECT_EQ(rig.apply(p)[0].num_cached_tokens, 16);
  rig.add(3, Rig::tokens(33), one);
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("3:32+1*"));
  const SchedulerStats s = rig.scheduler.stats();
  EXPECT_EQ(s.prefix_queries, 97u);
  EXPECT_EQ(s.prefix_hits, 48u);
}

TEST(SchedulerCache, NamespacesDoNotShare) {
  Rig rig(small());
  rig.add(1, Rig::tokens(20), Rig::endless(), 0, "a");
  rig.step();
  rig.add(2, Rig::tokens(20), Rig::endless(), 0, "b");
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:20+1*", "2:0+20*"));
}

TEST(SchedulerCache, ABlockIsPublishedOnlyWhenItsStepIsApplied) {
  SchedulerConfig c = small();
  c.depth = 2;
  c.max_num_seqs = 2;
  Rig rig(c);
  rig.add(1, Rig::tokens(20));
  const StepPlan first = rig.plan();
  rig.add(2, Rig::tokens(20));
  StepPlan p = rig.plan();  // the write of request 1 has not retired
  EXPECT_THAT(rows_of(p), ElementsAre("1:20+1*", "2:0+20*"));
  rig.apply(first);
  rig.scheduler.abort(RequestId{2});
  rig.apply(p);
  rig.add(3, Rig::tokens(20));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:21+1*", "3:16+4*"));
}

TEST(SchedulerCache, PromptLogprobsSkipLookupButPublish) {
  Rig rig(small());
  SamplingParams scored = Rig::endless();
  scored.prompt_logprobs = 1;
  const auto drive = [&](const StepPlan& p) {
    StepResult r{.step_id = p.step_id, .rows = {}};
    for (const RowPlan& row : p.rows) {
      RowResult x;
      x.request = row.request;
      if (row.samples) x.token = 7;
      if (row.scores_prompt) {
        for (int i = row.num_computed + 1; i <= row.num_computed + row.num_new && i < 20; ++i) {
          x.prompt_logprobs.push_back(TokenLogprobs{.token = i, .logprob = 0, .rank = 1, .top = {}});
        }
      }
      r.rows.push_back(x);
    }
    return rig.scheduler.apply(r);
  };
  rig.add(1, Rig::tokens(20));
  drive(rig.plan());
  rig.add(2, Rig::tokens(20), scored);
  StepPlan p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("1:20+1*", "2:0+20*"));
  EXPECT_FALSE(p.rows[0].scores_prompt);
  EXPECT_TRUE(p.rows[1].scores_prompt);
  EXPECT_EQ(drive(p)[1].prompt_logprobs.size(), 19u);
  rig.scheduler.abort(RequestId{1});
  rig.add(3, Rig::tokens(20));
  p = rig.plan();
  EXPECT_THAT(rows_of(p), ElementsAre("2:20+1*", "3:16+4*"));
  EXPECT_FALSE(p.rows[0].scores_prompt);
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 40u);
}

TEST(SchedulerCache, ResetDropsWhatNobodyHolds) {
  Rig rig(small());
  SamplingParams one = Rig::endless();
  one.max_tokens = 1;
  rig.add(1, Rig::tokens(20), one);
  rig.step();
  rig.add(2, Rig::tokens(20, 500));
  rig.step();
  EXPECT_FALSE(rig.scheduler.reset_prefix_cache());
  rig.check();
  rig.add(3, Rig::tokens(20));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("2:20+1*", "3:0+20*"));
}

TEST(SchedulerCache, OffMeansOff) {
  SchedulerConfig c = small();
  c.enable_prefix_caching = false;
  Rig rig(c);
  rig.add(1, Rig::tokens(20));
  rig.step();
  rig.add(2, Rig::tokens(20));
  EXPECT_THAT(rows_of(rig.plan()), ElementsAre("1:20+1*", "2:0+20*"));
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 0u);
}

}  // namespace
}  // namespace quire::test
