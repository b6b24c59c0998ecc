#include "kv/policy/prefix_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace quire::kv {

namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

}  // namespace

BlockHash seeded_block_hash(std::uint64_t seed) {
  return [seed](std::uint64_t parent_serial, std::span<const TokenId> tokens) {
    std::uint64_t h = mix(seed ^ mix(parent_serial));
    for (const TokenId t : tokens) h = mix(h ^ static_cast<std::uint32_t>(t)) + seed;
    return h;
  };
}

PrefixIndex::PrefixIndex(std::int32_t block_size, std::int32_t num_blocks, BlockHash hash) : block_size_(block_size), hash_(std::move(hash)) {
  QUIRE_CHECK_GE(block_size, 1);
  QUIRE_CHECK_GE(num_blocks, 0);
  const auto n = static_cast<std::size_t>(num_blocks);
  nodes_.resize(n);
  entries_.resize(n);
  node_tokens_.resize(n * static_cast<std::size_t>(block_size));
  buckets_.assign(std::bit_ceil(std::max<std::size_t>(n, 1)), -1);
  free_nodes_.reserve(n);
  for (std::int32_t i = num_blocks - 1; i >= 0; --i) free_nodes_.push_back(i);
}

Content PrefixIndex::open_root(const std::string& cache_namespace) {
  const auto [place, inserted] = roots_.try_emplace(cache_namespace);
  if (inserted) {
    place->second.serial = ++last_serial_;
    root_by_serial_.emplace(place->second.serial, place);
  }
  ++place->second.uses;
  ++num_open_;
  return Content{.serial = place->second.serial, .node = Content::kRootNode};
}

void PrefixIndex::close_root(Content root) {
  QUIRE_CHECK_EQ(root.node, Content::kRootNode);
  const auto found = root_by_serial_.find(root.serial);
  QUIRE_CHECK(found != root_by_serial_.end()) << "root " << root.serial << " is not open";
  QUIRE_CHECK_GE(num_open_, 1u);
  --num_open_;
  drop_root_use(found->second);
}

std::optional<PrefixIndex::Hit> PrefixIndex::find(Content parent, std::span<const TokenId> tokens) const {
  QUIRE_CHECK_EQ(tokens.size(), static_cast<std::size_t>(block_size_));
  const std::int32_t n = find_node(hash_(parent.serial, tokens), parent.serial, tokens);
  if (n < 0) return std::nullopt;
  return Hit{.block = BlockId{node(n).first_block}, .content = Content{.serial = node(n).serial, .node = n}};
}

std::optional<Content> PrefixIndex::publish(Content parent, std::span<const TokenId> tokens, BlockId block) {
  QUIRE_CHECK_EQ(tokens.size(), static_cast<std::size_t>(block_size_));
  QUIRE_CHECK(!contains(block)) << "block " << block.value << " is in the index already";
  const auto root = root_of(parent);
  if (!root) return std::nullopt;
  const std::uint64_t hash = hash_(parent.serial, tokens);
  std::int32_t n = find_node(hash, parent.serial, tokens);
  if (n < 0) n = add_node(hash, parent.serial, *root, tokens);
  // A duplicate goes behind the first block: lookups then keep answering with the block they answered with before.
  BlockEntry& entry = at(block);
  entry = BlockEntry{.node = n, .next = -1, .previous = node(n).first_block};
  if (entry.previous < 0) {
    node(n).first_block = block.value;
  } else {
    BlockEntry& first = at(BlockId{entry.previous});
    entry.next = std::exchange(first.next, block.value);
    if (entry.next >= 0) at(BlockId{entry.next}).previous = block.value;
  }
  ++num_cached_;
  return Content{.serial = node(n).serial, .node = n};
}

void PrefixIndex::forget(BlockId block) {
  BlockEntry& entry = at(block);
  if (entry.node < 0) return;
  if (entry.previous >= 0) {
    at(BlockId{entry.previous}).next = entry.next;
  } else {
    node(entry.node).first_block = entry.next;
  }
  if (entry.next >= 0) at(BlockId{entry.next}).previous = entry.previous;
  if (node(entry.node).first_block < 0) remove_node(entry.node);
  entry = BlockEntry{};
  --num_cached_;
}

std::span<const TokenId> PrefixIndex::tokens(BlockId block) const {
  QUIRE_CHECK(contains(block)) << "block " << block.value << " is not in the index";
  return node_tokens(at(block).node);
}

const PrefixIndex::BlockEntry& PrefixIndex::at(BlockId block) const {
  QUIRE_CHECK(block.value >= 0 && static_cast<std::size_t>(block.value) < entries_.size()) << "block " << block.value;
  return entries_[static_cast<std::size_t>(block.value)];
}

PrefixIndex::BlockEntry& PrefixIndex::at(BlockId block) { return const_cast<BlockEntry&>(std::as_const(*this).at(block)); }

std::span<const TokenId> PrefixIndex::node_tokens(std::int32_t n) const {
  const auto size = static_cast<std::size_t>(block_size_);
  return std::span(node_tokens_).subspan(static_cast<std::size_t>(n) * size, size);
}

std::int32_t PrefixIndex::find_node(std::uint64_t hash, std::uint64_t parent, std::span<const TokenId> tokens) const {
  for (std::int32_t n = buckets_[bucket_of(hash)]; n >= 0; n = node(n).next_in_bucket) {
    if (node(n).hash != hash || node(n).parent_serial != parent) continue;
    if (std::ranges::equal(node_tokens(n), tokens)) return n;
  }
  return -1;
}

std::optional<PrefixIndex::RootPlace> PrefixIndex::root_of(Content content) const {
  if (content.node == Content::kRootNode) {
    const auto found = root_by_serial_.find(content.serial);
    if (found == root_by_serial_.end()) return std::nullopt;
    return found->second;
  }
  if (content.serial == 0 || node(content.node).serial != content.serial) return std::nullopt;
  return node(content.node).root;
}

std::int32_t PrefixIndex::add_node(std::uint64_t hash, std::uint64_t parent, RootPlace root, std::span<const TokenId> tokens) {
  QUIRE_CHECK(!free_nodes_.empty());
  const std::int32_t n = free_nodes_.back();
  free_nodes_.pop_back();
  std::int32_t& bucket = buckets_[bucket_of(hash)];
  node(n) = Node{.serial = ++last_serial_, .parent_serial = parent, .hash = hash, .root = root, .next_in_bucket = bucket, .first_block = -1};
  bucket = n;
  ++root->second.uses;
  std::ranges::copy(tokens, node_tokens_.begin() + static_cast<std::ptrdiff_t>(n) * block_size_);
  return n;
}

void PrefixIndex::remove_node(std::int32_t n) {
  std::int32_t* link = &buckets_[bucket_of(node(n).hash)];
  while (*link != n) link = &node(*link).next_in_bucket;
  *link = node(n).next_in_bucket;
  const RootPlace root = node(n).root;
  node(n) = Node{};
  free_nodes_.push_back(n);
  drop_root_use(root);
}

void PrefixIndex::drop_root_use(RootPlace root) {
  if (--root->second.uses > 0) return;
  root_by_serial_.erase(root->second.serial);
  roots_.erase(root);
}

Status PrefixIndex::check() const {
  std::int32_t cached = 0;
  std::vector<std::int32_t> blocks_of(nodes_.size(), 0);
  for (const BlockEntry& entry : entries_) {
    if (entry.node < 0) continue;
    ++cached;
    if (node(entry.node).serial == 0) return Error{.message = "a cached block names an unused node", .param = {}};
    ++blocks_of[static_cast<std::size_t>(entry.node)];
  }
  if (cached != num_cached_) return Error{.message = "the count of cached blocks is wrong", .param = {}};
  std::size_t used = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].serial == 0) continue;
    ++used;
    std::int32_t listed = 0;
    for (std::int32_t b = nodes_[i].first_block; b >= 0; b = at(BlockId{b}).next) {
      if (at(BlockId{b}).node != static_cast<std::int32_t>(i)) return Error{.message = "a block is listed under a foreign node", .param = {}};
      ++listed;
    }
    if (listed == 0 || listed != blocks_of[i]) return Error{.message = "a node's block list is broken", .param = {}};
    const auto n = static_cast<std::int32_t>(i);
    if (find_node(nodes_[i].hash, nodes_[i].parent_serial, node_tokens(n)) != n) return Error{.message = "a node cannot be found", .param = {}};
  }
  if (used + free_nodes_.size() != nodes_.size()) return Error{.message = "a node leaked", .param = {}};
  std::int64_t uses = 0;
  for (const auto& [name, root] : roots_) uses += root.uses;
  if (uses != static_cast<std::int64_t>(num_open_ + used) || roots_.size() != root_by_serial_.size())
    return Error{.message = "a root leaked", .param = {}};
  return {};
}

}  // namespace quire::kv
