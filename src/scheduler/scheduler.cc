// Admission, departure and the questions that callers may ask. Planning is plan_step.cc, results are apply_step.cc.
#include "scheduler/scheduler.h"

#include <random>
#include <utility>

#include "base/check.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler_impl.h"

namespace quire {

using scheduler::Phase;
using scheduler::QueueKey;

namespace {

std::unique_ptr<kv::PrefixIndex> make_index(const SchedulerConfig& config, kv::BlockHash hash) {
  if (!config.enable_prefix_caching) return nullptr;
  if (hash) return std::make_unique<kv::PrefixIndex>(config.block_size, config.num_blocks, std::move(hash));
  // The seed changes which entries share a bucket, never what is found.
  std::random_device entropy;
  const std::uint64_t seed = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
  return std::make_unique<kv::PrefixIndex>(config.block_size, config.num_blocks, kv::seeded_block_hash(seed));
}

}  // namespace

Scheduler::Impl::Impl(const SchedulerConfig& c, kv::BlockHash hash)
    : config(c), index(make_index(c, std::move(hash))), pool(c.num_blocks, index.get()) {
  QUIRE_CHECK_GE(c.max_num_batched_tokens, 1);
  QUIRE_CHECK_GE(c.max_num_seqs, 1);
  QUIRE_CHECK_GE(c.max_model_len, 2);
  QUIRE_CHECK_GE(c.block_size, 1);
  QUIRE_CHECK_GE(c.num_blocks, 1);
  QUIRE_CHECK_GE(c.long_prefill_token_threshold, 0);
  QUIRE_CHECK(c.depth == 1 || c.depth == 2) << "depth " << c.depth;
  // Otherwise a sequence longer than the budget would wait for ever (vLLM refuses the same combination).
  QUIRE_CHECK(c.enable_chunked_prefill || c.max_num_batched_tokens >= c.max_model_len)
      << "without chunked prefill the token budget " << c.max_num_batched_tokens << " must reach max_model_len " << c.max_model_len;
  for (std::int32_t i = c.max_num_seqs - 1; i >= 0; --i) free_rows.push_back(StateRow{i});
}

Scheduler::Scheduler(const SchedulerConfig& config, BlockHash hash) : impl_(std::make_unique<Impl>(config, std::move(hash))) {}
Scheduler::~Scheduler() = default;

Status Scheduler::add(SequenceSpec spec) {
  Impl& s = *impl_;
  QUIRE_CHECK(!spec.id.is_none());
  QUIRE_CHECK(!s.live.contains(spec.id)) << "request " << spec.id.value << " is here already";
  QUIRE_CHECK(spec.sampling != nullptr);
  QUIRE_RETURN_IF_ERROR(check_admission(spec.prompt.size(), *spec.sampling, s.config));
  auto sequence = std::make_unique<Impl::Sequence>();
  sequence->id = spec.id;
  sequence->num_prompt = static_cast<std::int32_t>(spec.prompt.size());
  sequence->tokens = std::move(spec.prompt);
  sequence->sampling = std::move(spec.sampling);
  sequence->key.order = ++s.last_order;
  if (s.config.policy == SchedulingPolicy::kPriority) {
    sequence->key.priority = spec.priority;
    sequence->key.arrival = spec.arrival;
  }
  if (s.index != nullptr) sequence->root = s.index->open_root(spec.cache_namespace);
  s.waiting.emplace(sequence->key, sequence.get());
  s.live.emplace(spec.id, std::move(sequence));
  return {};
}

void Scheduler::abort(RequestId id) {
  const auto found = impl_->live.find(id);
  if (found == impl_->live.end()) return;
  Impl::Sequence& sequence = *found->second;
  impl_->leave(sequence);
  impl_->settle(sequence);
}

// Out of the lists at once; what it holds goes back when the last step that uses it retires (settle).
void Scheduler::Impl::leave(Sequence& sequence) {
  if (sequence.phase == Phase::kWaiting) {
    waiting.erase(sequence.key);
  } else {
    QUIRE_CHECK(sequence.phase == Phase::kRunning);
    std::erase(running, &sequence);
    ++num_releasing;
  }
  sequence.phase = Phase::kLeaving;
  auto node = live.extract(sequence.id);
  QUIRE_CHECK(!node.empty());
  leaving.emplace(&sequence, std::move(node.mapped()));
}

// Called whenever a row of the sequence retired or the sequence left: gives back what no step in flight uses any more.
// A leaving sequence may be destroyed by this.
void Scheduler::Impl::settle(Sequence& sequence) {
  if (sequence.phase == Phase::kRunning || sequence.num_in_flight > 0) return;
  if (sequence.holds_anything()) release(sequence);
  if (sequence.phase != Phase::kLeaving) return;
  if (index != nullptr) index->close_root(sequence.root);
  leaving.erase(&sequence);
}

void Scheduler::Impl::release(Sequence& sequence) {
  QUIRE_CHECK_EQ(sequence.num_in_flight, 0);
  pool.release(sequence.blocks);
  sequence.blocks.clear();
  free_rows.push_back(std::exchange(sequence.row, StateRow::none()));
  --num_releasing;
  sequence.num_published = 0;
  sequence.published = sequence.root;
  sequence.publishes = false;
}

std::optional<StepPlan> Scheduler::step_plan() { return impl_->plan(); }
std::vector<SequenceOutput> Scheduler::apply(const StepResult& result) { return impl_->apply(result); }
std::vector<SequenceOutput> Scheduler::fail_step(std::uint64_t step_id, const std::string& why) { return impl_->fail_step(step_id, why); }

bool Scheduler::has_work() const { return !impl_->live.empty() || !impl_->in_flight.empty(); }

SchedulerStats Scheduler::stats() const {
  const Impl& s = *impl_;
  return SchedulerStats{.num_running = static_cast<std::int32_t>(s.running.size()),
                        .num_waiting = static_cast<std::int32_t>(s.waiting.size()),
                        .num_blocks_total = s.pool.num_blocks(),
                        .num_blocks_free = s.pool.num_free(),
                        .num_preemptions = s.num_preemptions,
                        .prefix_queries = s.prefix_queries,
                        .prefix_hits = s.prefix_hits};
}

bool Scheduler::reset_prefix_cache() { return impl_->pool.drop_cached(); }

}  // namespace quire
