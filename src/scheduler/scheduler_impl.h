// The scheduler's state, shared by the files that plan (plan_step.cc), apply (apply_step.cc) and check (integrity.cc).
// Private to this room.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/policy/block_pool.h"
#include "kv/policy/prefix_index.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace quire {

struct Scheduler::Impl {
  using Sequence = scheduler::Sequence;

  struct InFlightRow {
    Sequence* sequence;
    RequestId request;
    std::int32_t num_computed;
    std::int32_t num_new;
    bool samples;
    bool scores_prompt;
  };
  struct InFlightStep {
    std::uint64_t step_id;
    std::vector<InFlightRow> rows;  // in the plan's order
  };
  // One row of a step while it is being planned; nothing of it is visible in the sequence but its new blocks.
  struct DraftRow {
    Sequence* sequence;
    std::int32_t num_new;
    std::size_t first_new_block;  // index in sequence->blocks
    bool enters;                  // needs a StateUpload
  };
  struct Draft {
    std::int32_t budget;
    std::vector<DraftRow> rows;
    bool preempted = false;            // somebody lost blocks in this step
    bool short_of_blocks = false;      // somebody could not get blocks: nobody is admitted
    std::int64_t promised_blocks = 0;  // that running sequences still need for the tokens they have
    bool blocks_reserved = false;      // blocks are coming back for somebody earlier in the list: nobody else takes one
  };
  struct PrefixMatch {
    std::vector<BlockId> blocks;
    kv::Content content;
    std::int32_t num_free = 0;  // of these blocks, those that nobody holds
  };

  Impl(const SchedulerConfig& c, kv::BlockHash hash);

  // plan_step.cc
  [[nodiscard]] std::optional<StepPlan> plan();
  void plan_running(Draft& draft);
  [[nodiscard]] bool grow(Draft& draft, std::size_t& position, std::int32_t num_new);
  void plan_waiting(Draft& draft);
  [[nodiscard]] bool admit(Draft& draft, Sequence& sequence);
  [[nodiscard]] std::int32_t grant(const Sequence& sequence, std::int32_t num_computed, std::int32_t budget) const;
  [[nodiscard]] bool at_known_end(const Sequence& sequence) const;
  [[nodiscard]] PrefixMatch match_prefix(const Sequence& sequence) const;
  [[nodiscard]] std::size_t choose_victim() const;
  void preempt(Draft& draft, std::size_t position);
  [[nodiscard]] StepPlan commit(Draft& draft);
  void commit_row(const DraftRow& row, StepPlan& plan, InFlightStep& step);

  // apply_step.cc
  [[nodiscard]] std::vector<SequenceOutput> apply(const StepResult& result);
  [[nodiscard]] std::vector<SequenceOutput> fail_step(std::uint64_t step_id, const std::string& why);
  [[nodiscard]] InFlightStep take_oldest_step(std::uint64_t step_id);
  [[nodiscard]] SequenceOutput absorb(const InFlightRow& row, const RowResult& result);
  void absorb_prompt_scores(const InFlightRow& row, const RowResult& result, SequenceOutput& output);
  [[nodiscard]] std::optional<SequenceFinish> finish_of(const Sequence& sequence) const;
  void publish(Sequence& sequence, std::int32_t num_written);
  void distrust(Sequence& sequence);

  // scheduler.cc
  void leave(Sequence& sequence);
  void settle(Sequence& sequence);
  void release(Sequence& sequence);

  [[nodiscard]] std::int32_t blocks_for(std::int64_t num_tokens) const {
    return static_cast<std::int32_t>((num_tokens + config.block_size - 1) / config.block_size);
  }
  [[nodiscard]] std::int64_t pool_tokens() const { return static_cast<std::int64_t>(config.num_blocks) * config.block_size; }
  // Sequences that are not running but hold blocks or a row until a step retires.
  [[nodiscard]] bool blocks_are_coming_back() const { return num_releasing > 0; }

  const SchedulerConfig config;
  std::unique_ptr<kv::PrefixIndex> index;  // null: prefix caching is off
  kv::BlockPool pool;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> live;  // waiting and running
  std::unordered_map<const Sequence*, std::unique_ptr<Sequence>> leaving;
  std::vector<Sequence*> running;  // in order of admission
  std::map<scheduler::QueueKey, Sequence*> waiting;
  std::deque<InFlightStep> in_flight;
  std::vector<StateRow> free_rows;
  std::int32_t num_releasing = 0;
  std::uint64_t last_step_id = 0;
  std::int64_t last_order = 0, first_order = 0;  // ends of the queue under kFcfs
  std::uint64_t num_preemptions = 0, prefix_queries = 0, prefix_hits = 0;
};

}  // namespace quire
