// What resolution needs to know of the machine. A plain struct, so that tests resolve for machines that do not exist.
#pragma once
#include <cstdint>

namespace quire::config {

struct MachineFacts {
  std::int64_t total_memory_bytes = 0;
  std::int64_t free_memory_bytes = 0;  // what could be taken now without swapping
  std::int32_t num_cores = 1;          // that this process may use
};

// This machine: /proc/meminfo and the control group's memory limit, whichever is smaller; cores of the affinity mask, at most the
// control group's CPU quota (rounded up).
[[nodiscard]] MachineFacts this_machine();

}  // namespace quire::config
