// The invariants of the scheduler, checked from its own tables. Linear in blocks and sequences; tests call it after every call.
#include <algorithm>
#include <string>

#include "scheduler/scheduler_impl.h"

namespace quire {

using scheduler::Phase;
using scheduler::Sequence;

namespace {

Status broken(const std::string& what) { return Error{.message = what, .param = {}}; }
Status broken(const Sequence& s, const std::string& what) { return broken("request " + std::to_string(s.id.value) + ": " + what); }

Status check_lengths(const Sequence& s, const SchedulerConfig& config) {
  const auto blocks = static_cast<std::int64_t>(s.blocks.size());
  if (s.num_in_flight < 0 || s.num_placeholders < 0 || s.num_placeholders > s.num_in_flight) return broken(s, "rows in flight are miscounted");
  if (s.phase == Phase::kLeaving) return s.num_in_flight > 0 ? Status{} : broken(s, "has left but was not destroyed");
  if (s.num_prompt < 1 || s.num_known() < s.num_prompt) return broken(s, "lost prompt tokens");
  if (s.length() > config.max_model_len) return broken(s, "is planned beyond max_model_len");
  if (s.num_outputs() > s.sampling->max_tokens) return broken(s, "is planned beyond max_tokens");
  if (s.phase == Phase::kWaiting) {
    if (s.num_computed != 0) return broken(s, "waits with computed positions");
    if (s.num_in_flight == 0 && s.holds_anything()) return broken(s, "waits and holds blocks that no step uses");
    return {};
  }
  if (s.row.is_none()) return broken(s, "runs without a state row");
  if (s.num_computed > s.length()) return broken(s, "computed more positions than it has");
  if (blocks * config.block_size < s.num_computed) return broken(s, "has positions without a block");
  if ((blocks - 1) * config.block_size >= s.length()) return broken(s, "holds a block that it cannot use");
  if (s.num_published > blocks || s.num_published * config.block_size > s.num_computed) return broken(s, "published a block before it was written");
  return {};
}

Status check_content(const Sequence& s, const kv::PrefixIndex* index, std::int32_t block_size) {
  if (index == nullptr) return {};
  const auto size = static_cast<std::size_t>(block_size);
  for (std::size_t b = 0; b < s.blocks.size(); ++b) {
    if (!index->contains(s.blocks[b])) continue;
    if (b >= static_cast<std::size_t>(s.num_published)) return broken(s, "holds a cached block that it did not publish");
    if (!std::ranges::equal(index->tokens(s.blocks[b]), std::span(s.tokens).subspan(b * size, size)))
      return broken(s, "a cached block holds other tokens");
  }
  return {};
}

}  // namespace

Status Scheduler::check_integrity() const {
  const Impl& s = *impl_;
  std::vector<std::int32_t> holders(static_cast<std::size_t>(s.config.num_blocks), 0);
  std::vector<bool> row_used(static_cast<std::size_t>(s.config.max_num_seqs), false);
  std::size_t num_rows = 0, num_running = 0, num_waiting = 0;
  std::int32_t num_releasing = 0;
  const auto check_one = [&](const Impl::Sequence& sequence) -> Status {
    QUIRE_RETURN_IF_ERROR(check_lengths(sequence, s.config));
    QUIRE_RETURN_IF_ERROR(check_content(sequence, s.index.get(), s.config.block_size));
    for (const BlockId b : sequence.blocks) ++holders[static_cast<std::size_t>(b.value)];
    num_running += sequence.phase == Phase::kRunning ? 1 : 0;
    num_waiting += sequence.phase == Phase::kWaiting ? 1 : 0;
    num_releasing += sequence.phase != Phase::kRunning && sequence.holds_anything() ? 1 : 0;
    if (sequence.row.is_none()) return {};
    const auto row = static_cast<std::size_t>(sequence.row.value);
    if (row_used[row]) return broken(sequence, "shares its state row");
    row_used[row] = true;
    ++num_rows;
    return {};
  };
  for (const auto& [id, sequence] : s.live) QUIRE_RETURN_IF_ERROR(check_one(*sequence));
  for (const auto& [key, sequence] : s.leaving) QUIRE_RETURN_IF_ERROR(check_one(*sequence));
  if (num_running != s.running.size() || num_waiting != s.waiting.size()) return broken("the lists and the phases disagree");
  if (num_releasing != s.num_releasing) return broken("sequences that still hold blocks are miscounted");
  for (const StateRow row : s.free_rows) {
    if (row_used[static_cast<std::size_t>(row.value)]) return broken("state row " + std::to_string(row.value) + " is free and used");
    row_used[static_cast<std::size_t>(row.value)] = true;
  }
  if (num_rows + s.free_rows.size() != row_used.size()) return broken("a state row leaked");
  std::int64_t in_flight = 0;
  for (const auto& [id, sequence] : s.live) in_flight += sequence->num_in_flight;
  for (const auto& [key, sequence] : s.leaving) in_flight += sequence->num_in_flight;
  for (const auto& step : s.in_flight) in_flight -= static_cast<std::int64_t>(step.rows.size());
  if (in_flight != 0) return broken("rows in flight are miscounted");
  if (s.index != nullptr) {
    if (s.index->num_open() != s.live.size() + s.leaving.size()) return broken("a namespace was left open");
    QUIRE_RETURN_IF_ERROR(s.index->check());
  }
  return s.pool.check(holders);
}

}  // namespace quire
