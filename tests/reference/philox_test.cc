// Known answers published with the paper's own library (Random123, kat_vectors: "philox4x32 10").
#include "reference/philox.h"

#include <gtest/gtest.h>

#include <bit>

namespace quire::reference {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryCounterAndKeyBitChangesAboutHalfOfTheOutput) {
  const Words base = philox4x32_10({1, 2, 3, 4}, {5, 6});
  for (std::uint32_t bit = 0; bit < 192; ++bit) {
    Words counter{1, 2, 3, 4};
    std::array<std::uint32_t, 2> key{5, 6};
    (bit < 128 ? counter[bit / 32] : key[(bit - 128) / 32]) ^= 1u << (bit % 32);
    const Words other = philox4x32_10(counter, key);
    int changed = 0;
    for (std::size_t w = 0; w < 4; ++w) changed += std::popcount(base[w] ^ other[w]);
    EXPECT_GT(changed, 32) << bit;
    EXPECT_LT(changed, 96) << bit;
  }
}

}  // namespace
}  // namespace quire::reference
