// Who holds which KV block. The one place where blocks are taken and given back. Owned by the scheduler (one thread);
// knows block ids and counts only: no tokens, no bytes, no device.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/policy/prefix_index.h"

namespace quire::kv {

// Every block is either held (one count per holder) or in the free list. A free block may still be cached: it keeps its
// content until it is taken from the head of the list. Order of the list = order of eviction:
//   head [ free, nothing cached ... | cached, least recently given back ... most recently ] tail
class BlockPool {
 public:
  // Ids are 0 .. num_blocks - 1. `index` (null: no prefix caching) outlives the pool.
  BlockPool(std::int32_t num_blocks, PrefixIndex* index);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Appends n blocks, each held once, to `out`; or changes nothing and returns false when fewer than n are free.
  [[nodiscard]] bool allocate(std::int32_t n, std::vector<BlockId>& out);
  // One more holder of a block that is held, or free and cached.
  void share(BlockId block);
  // Gives back one hold on each block of a sequence. They are freed from the last to the first, so that the tail of a
  // prefix is evicted before its head. Returns how many became free now.
  std::int32_t release(std::span<const BlockId> blocks);
  // Forgets the content of every cached block that nobody holds. True when no block at all is held.
  bool drop_cached();

  [[nodiscard]] std::int32_t num_blocks() const { return static_cast<std::int32_t>(entries_.size()); }
  [[nodiscard]] std::int32_t num_free() const { return num_free_; }  // cached blocks that nobody holds included
  [[nodiscard]] std::int32_t holders(BlockId block) const { return at(block).holders; }
  // Free list and counts agree; `expected_holders[id]` is what the caller's tables say.
  [[nodiscard]] Status check(std::span<const std::int32_t> expected_holders) const;

 private:
  struct Entry {
    std::int32_t holders = 0;
    std::int32_t next = -1, previous = -1;  // neighbours in the free list
  };

  [[nodiscard]] const Entry& at(BlockId block) const;
  [[nodiscard]] Entry& at(BlockId block);
  void link_head(BlockId block);
  void link_tail(BlockId block);
  void unlink(BlockId block);

  PrefixIndex* index_;
  std::vector<Entry> entries_;
  std::int32_t head_ = -1, tail_ = -1;
  std::int32_t num_free_ = 0;
};

}  // namespace quire::kv
