#include "config/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/checked.h"

namespace quire::config {
namespace {

// One number of /proc/meminfo, in bytes.
std::optional<std::int64_t> meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return checked_mul<std::int64_t>(kib, 1024);
    file.ignore(4096, '\n');
  }
  return std::nullopt;
}

// A control-group file's first number; nullopt when there is none or it says "max".
std::optional<std::int64_t> group_number(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value && value > 0) return value;
  return std::nullopt;
}

std::int32_t core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::int64_t cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  std::int64_t quota = 0, period = 0;
  if (quota_file >> quota >> period && quota > 0 && period > 0) cores = std::min(cores, ceil_div(quota, period));
  return static_cast<std::int32_t>(std::max<std::int64_t>(cores, 1));
}

}  // namespace

MachineFacts this_machine() {
  MachineFacts facts;
  facts.total_memory_bytes = meminfo("MemTotal:").value_or(0);
  facts.free_memory_bytes = meminfo("MemAvailable:").value_or(meminfo("MemFree:").value_or(0));
  if (const auto limit = group_number("/sys/fs/cgroup/memory.max")) {
    const std::int64_t used = group_number("/sys/fs/cgroup/memory.current").value_or(0);
    facts.total_memory_bytes = std::min(facts.total_memory_bytes, *limit);
    facts.free_memory_bytes = std::min(facts.free_memory_bytes, std::max<std::int64_t>(*limit - used, 0));
  }
  facts.num_cores = core_count();
  return facts;
}

}  // namespace quire::config
