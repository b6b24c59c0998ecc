// Random numbers for tests: the seed comes from the test's name and is printed when the test fails, so that every failure repeats.
#pragma once
#include <cstdint>
#include <random>

namespace quire::test {

// A generator seeded from the running test's full name (QUIRE_TEST_SEED in the environment replaces it).
[[nodiscard]] std::mt19937_64 seeded_rng();

}  // namespace quire::test
