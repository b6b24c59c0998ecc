// What this machine's compute threads reach at most: the yardsticks that benches hold kernels against. Measured with loops that do nothing
// else; knows no kernel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/cpu/thread_pool.h"

namespace quire::ops {

struct MachineRates {
  double read_bytes_per_second = 0.0;  // plain reads in address order, all threads together
  double flops_per_second = 0.0;       // float32, a fused multiply-add counts 2; on the instruction set in use
};

// `memory` should be several times larger than the last cache; it is read again and again for about a second, and the fastest pass counts.
[[nodiscard]] MachineRates measure_machine_rates(device::ThreadPool& pool, std::span<const std::byte> memory);

// Bytes of this machine's largest data cache; 0: not told.
[[nodiscard]] std::int64_t last_level_cache_bytes();

}  // namespace quire::ops
