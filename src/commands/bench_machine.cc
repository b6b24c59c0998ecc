#include "commands/bench_machine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "commands/cpu_set_up.h"
#include "config/machine.h"
#include "ops/cpu_kernels.h"

namespace quire::commands {
namespace {

// What the read rate is measured over: far beyond every cache, and small enough for every machine.
constexpr std::int64_t kLeastReadBytes = std::int64_t{256} << 20, kCachesToRead = 8;

Result<ops::MachineRates> measure_rates(device::CpuDevice& device, std::int64_t last_cache_bytes, std::int64_t free_bytes) {
  const std::int64_t bytes = std::max(kLeastReadBytes, kCachesToRead * last_cache_bytes);
  if (bytes > free_bytes / 2) return Error{ErrorCode::kResourceExhausted, "measuring this machine's read rate needs " + std::to_string(bytes >> 20) + " MiB; " + std::to_string(free_bytes >> 20) + " MiB are free", {}};
  auto memory = device.allocate(static_cast<std::size_t>(bytes), "read rate");
  if (!memory.ok()) return memory.error();
  std::fill(memory->data(), memory->data() + bytes, std::byte{1});  // pages of their own instead of the system's one of zeros
  return ops::measure_machine_rates(device.pool(), {memory->data(), memory->bytes()});
}

}  // namespace

Result<BenchDevice> open_bench_device(const config::Options& options, const config::Environment& environment) {
  QUIRE_RETURN_IF_ERROR(limit_isa(environment.cpu_isa));
  const config::MachineFacts facts = config::this_machine();
  BenchDevice out;
  BenchMachine& m = out.machine;
  m.num_cores = facts.num_cores;
  m.num_threads = static_cast<std::int32_t>(options.integer("num-threads").value_or(environment.num_threads.value_or(facts.num_cores)));
  if (m.num_threads > m.num_cores) QUIRE_LOG_WARN("--num-threads: {} threads on {} cores", m.num_threads, m.num_cores);
  m.memory_bytes = facts.total_memory_bytes;
  m.last_cache_bytes = ops::last_level_cache_bytes();
  m.isa = ops::cpu_isa();
  out.device = std::make_unique<device::CpuDevice>(m.num_threads, all_cpu_kernels());
  m.cpu = out.device->profile().name;
  QUIRE_LOG_INFO("measuring this machine's read and multiply-add rates");
  auto rates = measure_rates(*out.device, m.last_cache_bytes, facts.free_memory_bytes);
  if (!rates.ok()) return rates.error();
  m.rates = rates.value();
  return out;
}

std::string machine_text(const BenchMachine& m) {
  return "machine: " + m.cpu + ", " + std::to_string(m.num_cores) + " cores, " + std::to_string(m.num_threads) + " threads, kernels for " + m.isa + ", " + formatted("%.1f GiB memory", static_cast<double>(m.memory_bytes) / (1 << 30)) +
         ", last cache " + std::to_string(m.last_cache_bytes >> 20) + " MiB\n" + "plain reads: " + formatted("%.1f GB/s", m.rates.read_bytes_per_second * 1e-9) + ", float32 multiply-adds: " +
         formatted("%.0f GFLOP/s", m.rates.flops_per_second * 1e-9) + " (these threads together)\n";
}

boost::json::object machine_json(const BenchMachine& m) {
  return {{"cpu", m.cpu},
          {"isa", m.isa},
          {"cores", m.num_cores},
          {"threads", m.num_threads},
          {"memory_bytes", m.memory_bytes},
          {"last_cache_bytes", m.last_cache_bytes},
          {"read_gb_per_s", m.rates.read_bytes_per_second * 1e-9},
          {"fma_gflop_per_s", m.rates.flops_per_second * 1e-9}};
}

}  // namespace quire::commands
