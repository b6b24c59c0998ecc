#include "kv/policy/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kit/seed.h"

namespace quire::kv {
namespace {

using Tokens = std::vector<TokenId>;

std::uint64_t constant_hash(std::uint64_t, std::span<const TokenId>) { return 42; }

TEST(PrefixIndex, FindsOnlyAfterItsOwnParent) {
  PrefixIndex index(2, 8, seeded_block_hash(3));
  const Content root = index.open_root("");
  const auto a = index.publish(root, Tokens{1, 2}, BlockId{0});
  ASSERT_TRUE(a);
  const auto b = index.publish(*a, Tokens{3, 4}, BlockId{1});
  ASSERT_TRUE(b);
  EXPECT_EQ(index.find(root, Tokens{1, 2})->block, BlockId{0});
  EXPECT_EQ(index.find(*a, Tokens{3, 4})->block, BlockId{1});
  EXPECT_FALSE(index.find(root, Tokens{3, 4}));
  EXPECT_FALSE(index.find(*b, Tokens{3, 4}));
  EXPECT_FALSE(index.find(root, Tokens{2, 1}));
}

TEST(PrefixIndex, ACollisionIsNeverAHit) {
  PrefixIndex index(2, 8, constant_hash);
  const Content root = index.open_root("");
  const Content other = index.open_root("tenant");
  const auto a = index.publish(root, Tokens{1, 2}, BlockId{0});
  ASSERT_TRUE(a);
  EXPECT_FALSE(index.find(root, Tokens{1, 3}));   // other tokens
  EXPECT_FALSE(index.find(*a, Tokens{1, 2}));     // the same tokens at another place
  EXPECT_FALSE(index.find(other, Tokens{1, 2}));  // the same prefix of another namespace
  const auto b = index.publish(root, Tokens{1, 3}, BlockId{1});
  ASSERT_TRUE(b);
  const auto c = index.publish(*b, Tokens{1, 2}, BlockId{2});
  ASSERT_TRUE(c);
  EXPECT_EQ(index.find(root, Tokens{1, 2})->block, BlockId{0});
  EXPECT_EQ(index.find(root, Tokens{1, 3})->block, BlockId{1});
  EXPECT_EQ(index.find(*b, Tokens{1, 2})->block, BlockId{2});
  index.forget(BlockId{1});
  EXPECT_FALSE(index.find(root, Tokens{1, 3}));
  EXPECT_EQ(index.find(root, Tokens{1, 2})->block, BlockId{0});
  EXPECT_TRUE(index.check().ok());
}

TEST(PrefixIndex, DuplicatesShareOneContent) {
  PrefixIndex index(1, 4, seeded_block_hash(3));
  const Content root = index.open_root("");
  const auto a = index.publish(root, Tokens{5}, BlockId{0});
  const auto b = index.publish(root, Tokens{5}, BlockId{1});
  const auto c = index.publish(root, Tokens{5}, BlockId{2});
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->serial, b->serial);
  EXPECT_EQ(index.find(root, Tokens{5})->block, BlockId{0});
  index.forget(BlockId{0});
  EXPECT_TRUE(index.check().ok());
  ASSERT_TRUE(index.find(root, Tokens{5}));
  EXPECT_TRUE(index.publish(*a, Tokens{6}, BlockId{0}));  // the content lives on in the duplicates
  index.forget(BlockId{1});
  index.forget(BlockId{2});
  EXPECT_FALSE(index.find(root, Tokens{5}));
  EXPECT_TRUE(index.check().ok());
}

TEST(PrefixIndex, AChildOfADeadContentIsNotEnteredAndNotFound) {
  PrefixIndex index(1, 4, seeded_block_hash(3));
  const Content root = index.open_root("");
  const auto a = index.publish(root, Tokens{5}, BlockId{0});
  ASSERT_TRUE(a && index.publish(*a, Tokens{6}, BlockId{1}));
  index.forget(BlockId{0});
  EXPECT_FALSE(index.publish(*a, Tokens{7}, BlockId{2}));
  EXPECT_FALSE(index.contains(BlockId{2}));
  // The same tokens again are a new content: what hung below the old one stays out of reach.
  const auto again = index.publish(root, Tokens{5}, BlockId{0});
  ASSERT_TRUE(again);
  EXPECT_NE(again->serial, a->serial);
  EXPECT_FALSE(index.find(*again, Tokens{6}));
}

TEST(PrefixIndex, NamespacesAreApartAndLeaveNoTrace) {
  PrefixIndex index(1, 4, seeded_block_hash(3));
  for (int i = 0; i < 1000; ++i) index.close_root(index.open_root("salt " + std::to_string(i)));
  EXPECT_EQ(index.num_roots(), 0u);
  const Content a = index.open_root("a");
  ASSERT_TRUE(index.publish(a, Tokens{5}, BlockId{0}));
  index.close_root(a);
  EXPECT_EQ(index.num_roots(), 1u);  // its block keeps it
  const Content again = index.open_root("a");
  EXPECT_TRUE(index.find(again, Tokens{5}));
  EXPECT_FALSE(index.find(index.open_root("b"), Tokens{5}));
  index.close_root(again);
  index.forget(BlockId{0});
  EXPECT_EQ(index.num_roots(), 1u);  // "b"
}

TEST(PrefixIndexDeathTest, MisuseStops) {
  PrefixIndex index(2, 4, seeded_block_hash(3));
  const Content root = index.open_root("");
  ASSERT_TRUE(index.publish(root, Tokens{1, 2}, BlockId{0}));
  EXPECT_DEATH((void)index.publish(root, Tokens{1, 3}, BlockId{0}), "in the index already");
  EXPECT_DEATH((void)index.find(root, Tokens{1}), "tokens.size");
  EXPECT_DEATH(index.forget(BlockId{4}), "block 4");
  EXPECT_DEATH(index.close_root(Content{.serial = 99}), "is not open");
}

// Random chains, evictions and duplicates against a table that knows the whole prefix of every block; hashes from perfect to constant.
class PrefixIndexOracle : public ::testing::TestWithParam<int> {};

TEST_P(PrefixIndexOracle, EveryHitIsThePrefixItself) {
  auto rng = test::seeded_rng();
  const int hash_bits = GetParam();
  const BlockHash good = seeded_block_hash(9);
  const auto mask = (std::uint64_t{1} << hash_bits) - 1;
  PrefixIndex index(2, 24, [&](std::uint64_t p, std::span<const TokenId> t) { return good(p, t) & mask; });
  const std::vector<std::string> names = {"", "x"};
  std::map<std::string, Content> roots;
  for (const auto& n : names) roots[n] = index.open_root(n);
  std::map<std::int32_t, Tokens> whole_prefix;  // block -> namespace mark, then all tokens up to the block's end
  int hits = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string& name = names[rng() % 2];
    Tokens prefix = {name.empty() ? -1 : -2};
    Content at = roots[name];
    for (int depth = 0; depth < 4; ++depth) {
      const Tokens block = {static_cast<TokenId>(rng() % 2), static_cast<TokenId>(rng() % 3)};
      prefix.insert(prefix.end(), block.begin(), block.end());
      const auto hit = index.find(at, block);
      if (hit) {
        ASSERT_EQ(whole_prefix.at(hit->block.value), prefix);
        ++hits;
      }
      if (!hit || rng() % 8 == 0) {
        const BlockId fresh{static_cast<std::int32_t>(rng() % 24)};
        index.forget(fresh);
        whole_prefix.erase(fresh.value);
        const auto content = index.publish(at, block, fresh);
        if (!content) break;  // the eviction took the parent
        whole_prefix[fresh.value] = prefix;
        at = *content;
      } else {
        at = hit->content;
      }
    }
    if (i % 64 == 0) {
      ASSERT_TRUE(index.check().ok()) << index.check().error().message;
    }
    ASSERT_EQ(static_cast<std::size_t>(index.num_cached()), whole_prefix.size());
  }
  EXPECT_GT(hits, 1000);
}

INSTANTIATE_TEST_SUITE_P(HashBits, PrefixIndexOracle, ::testing::Values(0, 1, 3, 63));

}  // namespace
}  // namespace quire::kv
