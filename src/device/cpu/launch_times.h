// Where the CPU device's time goes, kernel by kernel. Written by the threads that launch, readable by any; counts on from one reading to the
// next.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "device/kernel_id.h"

namespace quire::device {

class LaunchTimes {
 public:
  struct Sample {
    std::int64_t nanoseconds = 0, launches = 0;
  };

  void add(KernelId id, std::chrono::nanoseconds took) {
    Cell& cell = cells_[static_cast<std::size_t>(id)];
    cell.nanoseconds.fetch_add(took.count(), std::memory_order_relaxed);
    cell.launches.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] Sample of(KernelId id) const {
    const Cell& cell = cells_[static_cast<std::size_t>(id)];
    return {cell.nanoseconds.load(std::memory_order_relaxed), cell.launches.load(std::memory_order_relaxed)};
  }

 private:
  struct Cell {
    std::atomic<std::int64_t> nanoseconds = 0, launches = 0;
  };
  std::array<Cell, kNumKernels> cells_;
};

// From now on each launch of every CPU device is timed into `into`, eager and replayed alike; nullptr: no more. Process-wide, as the
// instruction set is. Costs two readings of the clock a launch. `into` must outlive the launches.
void time_launches(LaunchTimes* into);

}  // namespace quire::device
