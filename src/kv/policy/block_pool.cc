#include "kv/policy/block_pool.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace quire::kv {

BlockPool::BlockPool(std::int32_t num_blocks, PrefixIndex* index) : index_(index) {
  QUIRE_CHECK_GE(num_blocks, 0);
  entries_.resize(static_cast<std::size_t>(num_blocks));
  for (std::int32_t i = 0; i < num_blocks; ++i) link_tail(BlockId{i});
}

bool BlockPool::allocate(std::int32_t n, std::vector<BlockId>& out) {
  QUIRE_CHECK_GE(n, 0);
  if (n > num_free_) return false;
  for (std::int32_t i = 0; i < n; ++i) {
    const BlockId block{head_};
    unlink(block);
    at(block).holders = 1;
    if (index_ != nullptr) index_->forget(block);
    out.push_back(block);
  }
  return true;
}

void BlockPool::share(BlockId block) {
  if (at(block).holders == 0) {
    QUIRE_CHECK(index_ != nullptr && index_->contains(block)) << "block " << block.value << " is free and holds nothing";
    unlink(block);
  }
  ++at(block).holders;
}

std::int32_t BlockPool::release(std::span<const BlockId> blocks) {
  std::int32_t freed = 0;
  for (std::size_t i = blocks.size(); i-- > 0;) {
    Entry& entry = at(blocks[i]);
    QUIRE_CHECK_GE(entry.holders, 1) << "block " << blocks[i].value << " given back twice";
    if (--entry.holders > 0) continue;
    ++freed;
    // A block without content is reused before any cached content is lost.
    if (index_ != nullptr && index_->contains(blocks[i])) {
      link_tail(blocks[i]);
    } else {
      link_head(blocks[i]);
    }
  }
  return freed;
}

bool BlockPool::drop_cached() {
  if (index_ != nullptr) {
    for (std::int32_t b = head_; b >= 0; b = at(BlockId{b}).next) index_->forget(BlockId{b});
  }
  return num_free_ == num_blocks();
}

const BlockPool::Entry& BlockPool::at(BlockId block) const {
  QUIRE_CHECK(block.value >= 0 && static_cast<std::size_t>(block.value) < entries_.size()) << "block " << block.value;
  return entries_[static_cast<std::size_t>(block.value)];
}

BlockPool::Entry& BlockPool::at(BlockId block) { return const_cast<Entry&>(std::as_const(*this).at(block)); }

void BlockPool::link_head(BlockId block) {
  Entry& entry = at(block);
  entry.previous = -1;
  entry.next = std::exchange(head_, block.value);
  (entry.next >= 0 ? at(BlockId{entry.next}).previous : tail_) = block.value;
  ++num_free_;
}

void BlockPool::link_tail(BlockId block) {
  Entry& entry = at(block);
  entry.next = -1;
  entry.previous = std::exchange(tail_, block.value);
  (entry.previous >= 0 ? at(BlockId{entry.previous}).next : head_) = block.value;
  ++num_free_;
}

void BlockPool::unlink(BlockId block) {
  Entry& entry = at(block);
  (entry.previous >= 0 ? at(BlockId{entry.previous}).next : head_) = entry.next;
  (entry.next >= 0 ? at(BlockId{entry.next}).previous : tail_) = entry.previous;
  entry.next = entry.previous = -1;
  --num_free_;
}

Status BlockPool::check(std::span<const std::int32_t> expected_holders) const {
  const auto broken = [](std::string what) { return Error{.message = "block pool: " + std::move(what), .param = {}}; };
  if (expected_holders.size() != entries_.size()) return broken("the holder table has the wrong size");
  std::vector<bool> listed(entries_.size(), false);
  std::int32_t count = 0, before = -1;
  for (std::int32_t b = head_; b >= 0; b = at(BlockId{b}).next) {
    if (listed[static_cast<std::size_t>(b)]) return broken("block " + std::to_string(b) + " is twice in the free list");
    if (at(BlockId{b}).previous != before) return broken("links of block " + std::to_string(b) + " disagree");
    listed[static_cast<std::size_t>(b)] = true;
    before = b;
    ++count;
  }
  if (before != tail_ || count != num_free_)
    return broken("the free list has " + std::to_string(count) + " blocks, " + std::to_string(num_free_) + " counted");
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].holders != expected_holders[i]) {
      return broken("block " + std::to_string(i) + " counts " + std::to_string(entries_[i].holders) + " holders, tables say " +
                    std::to_string(expected_holders[i]));
    }
    if (listed[i] != (entries_[i].holders == 0))
      return broken("block " + std::to_string(i) + (listed[i] ? " is free and held" : " is neither free nor held"));
  }
  return {};
}

}  // namespace quire::kv
