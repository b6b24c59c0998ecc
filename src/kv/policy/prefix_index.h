// Which block holds the keys and values of which token prefix. A cached block is found by hash and then compared: it stores
// its own tokens and the serial number of the content before it, so a hash collision can never produce a hit.
// Owned by the scheduler. Knows no reference counts (block_pool.h) and never touches the bytes of a block.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::kv {

// A prefix of whole blocks: a root (the empty prefix of one namespace) or one indexed block after another content.
// Serials start at 1 and are never used twice, so a Content that outlived its entry is recognised as dead.
struct Content {
  static constexpr std::int32_t kRootNode = -1;
  std::uint64_t serial = 0;
  std::int32_t node = kRootNode;
};

// Any function of its arguments is right; a bad one is only slow.
using BlockHash = std::function<std::uint64_t(std::uint64_t parent_serial, std::span<const TokenId> tokens)>;

// The hash of a running server. An unpredictable seed keeps clients from building prompts that share one bucket.
[[nodiscard]] BlockHash seeded_block_hash(std::uint64_t seed);

class PrefixIndex {
 public:
  struct Hit {
    BlockId block;
    Content content;
  };

  // block_size tokens in each block; block ids are 0 .. num_blocks - 1.
  PrefixIndex(std::int32_t block_size, std::int32_t num_blocks, BlockHash hash);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The empty prefix of a namespace. Each open is paired with one close; a namespace nobody uses leaves no trace.
  [[nodiscard]] Content open_root(const std::string& cache_namespace);
  void close_root(Content root);

  // The block that holds `tokens` (exactly block_size of them) right after `parent`.
  [[nodiscard]] std::optional<Hit> find(Content parent, std::span<const TokenId> tokens) const;
  // Enters a block whose write has retired. Several blocks may carry one content. nullopt: `parent` has left the index, so
  // the block could never be found and is not entered. The block must not be in the index.
  [[nodiscard]] std::optional<Content> publish(Content parent, std::span<const TokenId> tokens, BlockId block);
  // Takes a block out; nothing happens when it is not in.
  void forget(BlockId block);

  [[nodiscard]] bool contains(BlockId block) const { return at(block).node >= 0; }
  // The tokens of a contained block.
  [[nodiscard]] std::span<const TokenId> tokens(BlockId block) const;
  [[nodiscard]] std::int32_t num_cached() const { return num_cached_; }  // blocks
  [[nodiscard]] std::size_t num_roots() const { return roots_.size(); }
  [[nodiscard]] std::size_t num_open() const { return num_open_; }  // opens that are not closed
  [[nodiscard]] Status check() const;

 private:
  struct Root {
    std::uint64_t serial = 0;
    std::int64_t uses = 0;  // opens that are not closed, plus nodes below
  };
  using RootPlace = std::map<std::string, Root>::iterator;
  // One content. Nodes of one bucket form a list, and so do the blocks that carry one content.
  struct Node {
    std::uint64_t serial = 0;  // 0: unused
    std::uint64_t parent_serial = 0;
    std::uint64_t hash = 0;
    RootPlace root;
    std::int32_t next_in_bucket = -1;
    std::int32_t first_block = -1;
  };
  struct BlockEntry {
    std::int32_t node = -1;  // -1: not in the index
    std::int32_t next = -1, previous = -1;
  };

  [[nodiscard]] const BlockEntry& at(BlockId block) const;
  [[nodiscard]] BlockEntry& at(BlockId block);
  [[nodiscard]] Node& node(std::int32_t n) { return nodes_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] const Node& node(std::int32_t n) const { return nodes_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] std::span<const TokenId> node_tokens(std::int32_t n) const;
  [[nodiscard]] std::size_t bucket_of(std::uint64_t hash) const { return static_cast<std::size_t>(hash) & (buckets_.size() - 1); }
  [[nodiscard]] std::int32_t find_node(std::uint64_t hash, std::uint64_t parent, std::span<const TokenId> tokens) const;
  [[nodiscard]] std::optional<RootPlace> root_of(Content content) const;
  [[nodiscard]] std::int32_t add_node(std::uint64_t hash, std::uint64_t parent, RootPlace root, std::span<const TokenId> tokens);
  void remove_node(std::int32_t n);
  void drop_root_use(RootPlace root);

  std::int32_t block_size_;
  BlockHash hash_;
  std::uint64_t last_serial_ = 0;
  std::int32_t num_cached_ = 0;
  std::size_t num_open_ = 0;
  std::vector<Node> nodes_;           // as many as blocks: each node has at least one
  std::vector<TokenId> node_tokens_;  // [node][block_size]
  std::vector<std::int32_t> free_nodes_;
  std::vector<std::int32_t> buckets_;  // first node, or -1
  std::vector<BlockEntry> entries_;    // by block id
  std::map<std::string, Root> roots_;
  std::unordered_map<std::uint64_t, RootPlace> root_by_serial_;
};

}  // namespace quire::kv
