// Random streams of add, abort, plan, apply, failure and cache reset on tiny pools. Every sequence must give what it gives
// alone with all the memory in the world, every read of the pool must see its own tokens, and nothing may leak or stall.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kit/seed.h"
#include "scheduler/fake_model.h"
#include "scheduler/scheduler.h"

namespace quire::test {
namespace {

struct Counts {
  std::uint64_t preemptions = 0, hits = 0, aborts = 0, failures = 0, too_small = 0, finished = 0, steps = 0, failed_steps = 0, scored = 0;
};

struct Tracked {
  SequenceSpec spec;
  Ending alone;
  std::vector<TokenId> outputs;
  std::vector<TokenLogprobs> scores;
  bool ended = false, seen = false, step_failed = false;
};

// One random world: a scheduler, a device and the truth about every request.
class World {
 public:
  World(std::mt19937_64& rng, const SchedulerConfig& config, const FakeModel& model, Scheduler::BlockHash hash)
      : rng_(rng), config_(config), model_(model), scheduler_(config, std::move(hash)), device_(model, config) {
    for (auto& base : bases_) {
      const std::size_t n = 1 + rng_() % 70;
      for (std::size_t i = 0; i < n; ++i) base.push_back(token());
    }
  }

  void run(int num_calls, Counts& counts) {
    for (int i = 0; i < num_calls && !failed_; ++i) one_call();
    // Now nothing new: everything must end within a bounded number of steps.
    std::int64_t bound = 64;
    for (const auto& [id, t] : tracked_) {
      if (!t.ended) bound += 4 * static_cast<std::int64_t>(t.spec.prompt.size() + t.alone.outputs.size() + 4);
    }
    bound *= 4;  // preemption may repeat work
    while (scheduler_.has_work() && !failed_ && bound-- > 0) {
      plan();
      if (device_.num_in_flight() > 0 && rng_() % 2 == 0) apply();
      if (device_.num_in_flight() == static_cast<std::size_t>(config_.depth)) apply();
      if (device_.num_in_flight() > 0 && !planned_something_) apply();
    }
    if (!failed_) finish(counts);
  }

 private:
  TokenId token() { return static_cast<TokenId>(rng_() % static_cast<std::uint64_t>(model_.vocab)); }
  void fail(const std::string& what) {
    failed_ = true;
    std::ostringstream out;
    out << what << "; depth " << config_.depth << ", blocks " << config_.num_blocks << " x " << config_.block_size << ", budget "
        << config_.max_num_batched_tokens << ", seqs " << config_.max_num_seqs << ", max_model_len " << config_.max_model_len << ", chunked "
        << config_.enable_chunked_prefill << ", caching " << config_.enable_prefix_caching << ", policy " << static_cast<int>(config_.policy)
        << ", step " << counts_.steps;
    ADD_FAILURE() << out.str();
  }
  void check() {
    const Status status = scheduler_.check_integrity();
    if (!status.ok()) fail(status.error().message);
  }

  void one_call() {
    switch (rng_() % 16) {
      case 0:
      case 1:
      case 2: add(); break;
      case 3:
        if (rng_() % 3 == 0) abort();
        break;
      case 4:
        if (rng_() % 16 == 0) (void)scheduler_.reset_prefix_cache();
        break;
      case 5:
        if (with_failed_steps_ && device_.num_in_flight() > 0 && rng_() % 8 == 0) fail_step();
        break;
      case 6:
      case 7:
      case 8:
      case 9:
      case 10: plan(); break;
      default:
        if (device_.num_in_flight() > 0)
          apply();
        else
          plan();
        break;
    }
    if (!failed_) check();
  }

  void add() {
    if (tracked_.size() > 60) return;
    SequenceSpec spec;
    spec.id = RequestId{next_id_++};
    const auto& base = bases_[rng_() % bases_.size()];
    spec.prompt.assign(base.begin(), base.begin() + static_cast<std::ptrdiff_t>(rng_() % (base.size() + 1)));
    for (std::size_t i = rng_() % 20; i > 0; --i) spec.prompt.push_back(token());
    auto p = std::make_shared<SamplingParams>();
    p->max_tokens = static_cast<std::int32_t>(1 + rng_() % 60);
    p->min_tokens = static_cast<std::int32_t>(rng_() % 3 == 0 ? rng_() % static_cast<std::uint64_t>(p->max_tokens) : 0);
    p->ignore_eos = rng_() % 2 == 0;
    if (rng_() % 2 == 0) p->eos_token_ids = {0};
    if (rng_() % 4 == 0) p->stop_token_ids = {1, 2};
    if (rng_() % 4 == 0) p->prompt_logprobs = 0;
    spec.sampling = p;
    spec.priority = static_cast<std::int32_t>(rng_() % 3);
    spec.arrival = rng_() % 4 == 0 ? 5 : next_id_;
    spec.cache_namespace = rng_() % 4 == 0 ? "tenant" : "";
    const bool fits = !spec.prompt.empty() && static_cast<std::int32_t>(spec.prompt.size()) < config_.max_model_len &&
                      static_cast<std::int64_t>(spec.prompt.size()) + 1 <= pool_tokens();
    const Status status = scheduler_.add(spec);
    if (status.ok() != fits) return fail("add() answered wrongly for a prompt of " + std::to_string(spec.prompt.size()));
    if (!fits) return;
    Tracked t;
    t.alone = run_alone(model_, spec, config_.max_model_len, pool_tokens());
    t.spec = std::move(spec);
    tracked_.emplace(t.spec.id.value, std::move(t));
  }

  void abort() {
    const RequestId id{rng_() % (next_id_ + 2)};
    scheduler_.abort(id);
    const auto found = tracked_.find(id.value);
    if (found == tracked_.end() || found->second.ended) return;
    ++counts_.aborts;
    tracked_.erase(found);
  }

  void plan() {
    const auto step = scheduler_.step_plan();
    planned_something_ = step.has_value();
    if (!step) return;
    ++counts_.steps;
    if (const std::string error = device_.accept(*step); !error.empty()) fail(error);
  }

  void apply() {
    std::string error;
    const StepResult result = device_.execute(error);
    if (!error.empty()) return fail(error);
    for (const SequenceOutput& out : scheduler_.apply(result)) take(out);
    if (!failed_) check();
  }

  void fail_step() {
    ++counts_.failed_steps;
    const std::uint64_t id = device_.oldest().step_id;
    device_.break_oldest();
    for (const SequenceOutput& out : scheduler_.fail_step(id, "device lost")) {
      const auto found = tracked_.find(out.id.value);
      if (found == tracked_.end() || found->second.ended) return fail("an output of nobody");
      if (!out.finish || out.finish->reason != FinishReason::kError || out.finish->error.value().message != "device lost")
        return fail("a failed step ends its sequences with its error");
      found->second.ended = found->second.step_failed = true;
    }
  }

  void take(const SequenceOutput& out) {
    const auto found = tracked_.find(out.id.value);
    if (found == tracked_.end()) return fail("an output of an aborted or unknown request");
    Tracked& t = found->second;
    if (t.ended) return fail("an output after the end");
    if (out.first_scheduled == t.seen) return fail("first_scheduled is wrong");
    t.seen = true;
    t.scores.insert(t.scores.end(), out.prompt_logprobs.begin(), out.prompt_logprobs.end());
    if (out.token) t.outputs.push_back(*out.token);
    if (t.outputs.size() > t.alone.outputs.size()) return fail("more outputs than alone");
    if (out.num_cached_tokens < 0 || out.num_cached_tokens >= static_cast<std::int32_t>(t.spec.prompt.size() + 1))
      return fail("num_cached_tokens out of range");
    if (!out.finish) return;
    t.ended = true;
    ++counts_.finished;
    if (out.finish->reason == FinishReason::kError)
      ++(out.finish->error.value().message.find("too small") != std::string::npos ? counts_.too_small : counts_.failures);
    if (out.finish->reason != t.alone.reason || out.finish->stop_token != t.alone.stop_token) return fail("ended otherwise than alone");
  }

  void finish(Counts& total) {
    EXPECT_FALSE(scheduler_.has_work()) << "no end within the bound";
    if (scheduler_.has_work()) return fail("stuck");
    for (const auto& [id, t] : tracked_) {
      EXPECT_TRUE(t.ended);
      if (t.step_failed) continue;
      EXPECT_EQ(t.outputs, t.alone.outputs) << "request " << id;
      check_scores(t);
    }
    const SchedulerStats stats = scheduler_.stats();
    EXPECT_EQ(stats.num_blocks_free, config_.num_blocks);
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
    EXPECT_TRUE(scheduler_.reset_prefix_cache());
    check();
    total.preemptions += stats.num_preemptions;
    total.hits += stats.prefix_hits;
    total.aborts += counts_.aborts;
    total.failures += counts_.failures;
    total.too_small += counts_.too_small;
    total.finished += counts_.finished;
    total.steps += counts_.steps;
    total.failed_steps += counts_.failed_steps;
    total.scored += counts_.scored;
  }

  void check_scores(const Tracked& t) {
    if (!t.spec.sampling->prompt_logprobs) {
      EXPECT_TRUE(t.scores.empty());
      return;
    }
    if (t.alone.reason == FinishReason::kError && t.alone.outputs.empty()) return;  // failed while the prompt was scored
    ASSERT_EQ(t.scores.size(), t.spec.prompt.size() - 1);
    std::uint64_t h = 1;
    for (std::size_t i = 0; i < t.scores.size(); ++i) {
      h = model_.extend(h, t.spec.prompt[i]);
      EXPECT_EQ(t.scores[i].rank, static_cast<std::int32_t>(i) + 1);
      EXPECT_EQ(t.scores[i].logprob, model_.score(h, t.spec.prompt[i + 1]));
      ++counts_.scored;
    }
  }

  [[nodiscard]] std::int64_t pool_tokens() const { return std::int64_t{config_.num_blocks} * config_.block_size; }

  std::mt19937_64& rng_;
  SchedulerConfig config_;
  FakeModel model_;
  Scheduler scheduler_;
  FakeDevice device_;
  std::vector<std::vector<TokenId>> bases_{3};
  std::map<std::uint64_t, Tracked> tracked_;
  std::uint64_t next_id_ = 1;
  bool failed_ = false, planned_something_ = false;
  bool with_failed_steps_ = true;
  Counts counts_;
};

struct Variant {
  std::int32_t depth;
  SchedulingPolicy policy;
  bool caching;
};

class SchedulerProperty : public ::testing::TestWithParam<Variant> {};

TEST_P(SchedulerProperty, EverySequenceGivesWhatItGivesAlone) {
  auto rng = seeded_rng();
  const Variant v = GetParam();
  Counts counts;
  for (int world = 0; world < 150 && !HasFailure(); ++world) {
    SchedulerConfig c;
    c.depth = v.depth;
    c.policy = v.policy;
    c.enable_prefix_caching = v.caching;
    const std::int32_t sizes[] = {16, 32, 4};
    c.block_size = sizes[rng() % 3];
    c.num_blocks = static_cast<std::int32_t>(2 + rng() % (c.block_size == 4 ? 60 : 14));
    c.max_num_seqs = static_cast<std::int32_t>(1 + rng() % 9);
    c.max_model_len = static_cast<std::int32_t>(rng() % 4 == 0 ? 40 : 200);
    c.max_num_batched_tokens = static_cast<std::int32_t>(rng() % 3 == 0 ? 1 + rng() % 8 : 1 + rng() % 512);
    c.enable_chunked_prefill = rng() % 4 != 0;
    if (!c.enable_chunked_prefill) c.max_num_batched_tokens = std::max(c.max_num_batched_tokens, c.max_model_len);
    if (rng() % 3 == 0) c.long_prefill_token_threshold = static_cast<std::int32_t>(1 + rng() % 40);
    FakeModel model;
    model.vocab = static_cast<std::int32_t>(4 + rng() % 40);
    model.fail_every = rng() % 2 == 0 ? 0 : 150;
    // From a good hash to one that gives everything the same value.
    const std::uint64_t mask = std::uint64_t{0xffff} >> (rng() % 17);
    Scheduler::BlockHash hash;
    if (rng() % 2 == 0) {
      hash = [mask](std::uint64_t parent, std::span<const TokenId> t) {
        return (parent * 31 + static_cast<std::uint64_t>(t.front()) * 7 + static_cast<std::uint64_t>(t.back())) & mask;
      };
    }
    World(rng, c, model, hash).run(400, counts);
  }
  std::cout << counts.steps << " steps, " << counts.finished << " finished, " << counts.preemptions << " preemptions, " << counts.hits
            << " tokens hit, " << counts.aborts << " aborts, " << counts.failures << " failed rows, " << counts.failed_steps << " failed steps, "
            << counts.too_small << " outgrew the pool, " << counts.scored << " prompt scores\n";
  // The streams must have gone where it hurts.
  EXPECT_GT(counts.finished, 500u);
  EXPECT_GT(counts.preemptions, 50u);
  EXPECT_GT(counts.aborts, 50u);
  EXPECT_GT(counts.failures, 10u);
  EXPECT_GT(counts.failed_steps, 10u);
  EXPECT_GT(counts.too_small, 10u);
  EXPECT_GT(counts.scored, 100u);
  EXPECT_EQ(counts.hits > 0, v.caching);
}

INSTANTIATE_TEST_SUITE_P(All, SchedulerProperty,
                         ::testing::Values(Variant{1, SchedulingPolicy::kFcfs, true}, Variant{2, SchedulingPolicy::kFcfs, true},
                                           Variant{1, SchedulingPolicy::kFcfs, false}, Variant{2, SchedulingPolicy::kFcfs, false},
                                           Variant{1, SchedulingPolicy::kPriority, true}, Variant{2, SchedulingPolicy::kPriority, true},
                                           Variant{2, SchedulingPolicy::kPriority, false}),
                         [](const auto& test) {
                           return "Depth" + std::to_string(test.param.depth) + (test.param.policy == SchedulingPolicy::kFcfs ? "Fcfs" : "Priority") +
                                  (test.param.caching ? "Cached" : "Uncached");
                         });

}  // namespace
}  // namespace quire::test
