// The yardsticks of benches.
#include "ops/machine_rates.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire::ops {
namespace {

TEST(MachineRates, ArePlausibleForOneThreadAndTwo) {
  const std::vector<std::byte> memory((4u << 20) + 24, std::byte{1});  // no whole number of read units
  for (const int threads : {1, 2}) {
    device::ThreadPool pool(threads);
    const MachineRates rates = measure_machine_rates(pool, memory);
    EXPECT_GT(rates.read_bytes_per_second, 1e7);
    EXPECT_LT(rates.read_bytes_per_second, threads * 2e12);  // two cache lines in each cycle at 15 GHz
    EXPECT_GT(rates.flops_per_second, 1e7);
    EXPECT_LT(rates.flops_per_second, threads * 2e12);
  }
}

TEST(MachineRates, TheLastCacheHasASizeOrNone) {
  const std::int64_t bytes = last_level_cache_bytes();
  EXPECT_TRUE(bytes == 0 || (bytes >= (std::int64_t{16} << 10) && bytes <= (std::int64_t{16} << 30))) << bytes;
}

}  // namespace
}  // namespace quire::ops
