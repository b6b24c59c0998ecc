#include "kv/policy/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kit/seed.h"

namespace quire::kv {
namespace {

std::vector<BlockId> ids(std::initializer_list<std::int32_t> values) {
  std::vector<BlockId> out;
  for (const std::int32_t v : values) out.push_back(BlockId{v});
  return out;
}

TEST(BlockPool, AllocatesAtomically) {
  BlockPool pool(3, nullptr);
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(2, a));
  EXPECT_EQ(a.size(), 2u);
  std::vector<BlockId> b;
  EXPECT_FALSE(pool.allocate(2, b));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.allocate(0, b));
  EXPECT_TRUE(pool.allocate(1, b));
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.release(a), 2);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPool, SharedBlockIsFreeOnlyAfterTheLastHolder) {
  BlockPool pool(2, nullptr);
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(1, a));
  pool.share(a[0]);
  EXPECT_EQ(pool.release(a), 0);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.release(a), 1);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPoolDeathTest, GivingBackTwiceStops) {
  BlockPool pool(2, nullptr);
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(1, a));
  EXPECT_EQ(pool.release(a), 1);
  EXPECT_DEATH((void)pool.release(a), "given back twice");
  EXPECT_DEATH(pool.share(a[0]), "free and holds nothing");
  EXPECT_DEATH((void)pool.holders(BlockId{2}), "block 2");
  EXPECT_DEATH((void)pool.holders(BlockId::none()), "block -1");
}

TEST(BlockPool, EvictsEmptyBlocksThenTailsThenHeads) {
  PrefixIndex index(2, 4, seeded_block_hash(1));
  BlockPool pool(4, &index);
  const Content root = index.open_root("");
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(3, a));
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  const auto c0 = index.publish(root, std::span(tokens).first(2), a[0]);
  ASSERT_TRUE(c0);
  ASSERT_TRUE(index.publish(*c0, std::span(tokens).last(2), a[1]));
  EXPECT_EQ(pool.release(a), 3);  // a[2] is empty
  std::vector<BlockId> taken;
  ASSERT_TRUE(pool.allocate(2, taken));  // the two that hold nothing
  EXPECT_EQ(index.num_cached(), 2);
  EXPECT_TRUE(std::ranges::find(taken, a[2]) != taken.end());
  ASSERT_TRUE(pool.allocate(1, taken));
  EXPECT_EQ(taken.back(), a[1]) << "the tail of the prefix goes first";
  EXPECT_TRUE(index.contains(a[0]));
  EXPECT_TRUE(index.find(root, std::span(tokens).first(2)));
  ASSERT_TRUE(pool.allocate(1, taken));
  EXPECT_EQ(index.num_cached(), 0);
}

TEST(BlockPool, SharingAFreeCachedBlockSavesItFromEviction) {
  PrefixIndex index(1, 2, seeded_block_hash(1));
  BlockPool pool(2, &index);
  const Content root = index.open_root("");
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(1, a));
  const std::vector<TokenId> token = {7};
  ASSERT_TRUE(index.publish(root, token, a[0]));
  pool.release(a);
  pool.share(a[0]);
  std::vector<BlockId> b;
  ASSERT_TRUE(pool.allocate(1, b));
  EXPECT_NE(b[0], a[0]);
  EXPECT_FALSE(pool.allocate(1, b));
  EXPECT_TRUE(index.contains(a[0]));
}

TEST(BlockPool, DropCachedKeepsWhatIsHeld) {
  PrefixIndex index(1, 3, seeded_block_hash(1));
  BlockPool pool(3, &index);
  const Content root = index.open_root("");
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(2, a));
  const std::vector<TokenId> t = {7, 8};
  ASSERT_TRUE(index.publish(root, std::span(t).first(1), a[0]));
  ASSERT_TRUE(index.publish(root, std::span(t).last(1), a[1]));
  pool.release(std::span(a).last(1));
  EXPECT_FALSE(pool.drop_cached());
  EXPECT_TRUE(index.contains(a[0]));
  EXPECT_FALSE(index.contains(a[1]));
  pool.release(std::span(a).first(1));
  EXPECT_TRUE(pool.drop_cached());
  EXPECT_EQ(index.num_cached(), 0);
}

TEST(BlockPool, CheckSeesAWrongTable) {
  BlockPool pool(2, nullptr);
  std::vector<BlockId> a;
  ASSERT_TRUE(pool.allocate(1, a));
  EXPECT_TRUE(pool.check(std::vector<std::int32_t>{1, 0}).ok());
  EXPECT_FALSE(pool.check(std::vector<std::int32_t>{0, 0}).ok());
  EXPECT_FALSE(pool.check(std::vector<std::int32_t>{1, 1}).ok());
  EXPECT_FALSE(pool.check(std::vector<std::int32_t>{1}).ok());
  EXPECT_EQ(a, ids({0}));
}

TEST(BlockPool, RandomHoldersAgreeWithATable) {
  auto rng = test::seeded_rng();
  BlockPool pool(17, nullptr);
  std::vector<std::vector<BlockId>> tables;
  std::vector<std::int32_t> holders(17, 0);
  for (int i = 0; i < 4000; ++i) {
    const auto n = static_cast<std::int32_t>(rng() % 6);
    if (rng() % 2 == 0 || tables.empty()) {
      std::vector<BlockId> t;
      const std::int32_t before = pool.num_free();
      ASSERT_EQ(pool.allocate(n, t), n <= before);
      if (!tables.empty() && rng() % 3 == 0) {
        for (const BlockId b : tables[rng() % tables.size()]) {
          pool.share(b);
          t.push_back(b);
        }
      }
      for (const BlockId b : t) ++holders[static_cast<std::size_t>(b.value)];
      tables.push_back(std::move(t));
    } else {
      const std::size_t which = rng() % tables.size();
      for (const BlockId b : tables[which]) --holders[static_cast<std::size_t>(b.value)];
      pool.release(tables[which]);
      tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(which));
    }
    ASSERT_TRUE(pool.check(holders).ok()) << pool.check(holders).error().message;
  }
}

}  // namespace
}  // namespace quire::kv
