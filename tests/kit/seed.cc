#include "kit/seed.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace quire::test {

std::mt19937_64 seeded_rng() {
  std::uint64_t seed = 1469598103934665603ull;  // FNV-1a over the test's name
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = info == nullptr ? "none" : std::string(info->test_suite_name()) + "." + info->name();
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  if (const char* fixed = std::getenv("QUIRE_TEST_SEED")) seed = std::strtoull(fixed, nullptr, 10);
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return std::mt19937_64(seed);
}

}  // namespace quire::test
