// Philox4x32-10, the counter-based random function of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011), section 3.3: ten rounds, the Weyl key schedule, multipliers 0xD2511F53 and 0xCD9E8D57.
#pragma once
#include <array>
#include <cstdint>

namespace quire::reference {

// A pure function: 128 counter bits under a 64-bit key give 128 random bits; words in the paper's order.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

}  // namespace quire::reference
