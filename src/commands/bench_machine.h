// The machine that a bench ran on, as results name it, and its CPU device. Shared by all benches.
#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/environment.h"
#include "config/options.h"
#include "device/cpu/cpu_device.h"
#include "ops/machine_rates.h"

namespace quire::commands {

struct BenchMachine {
  std::string cpu;  // the processor's own name
  std::string isa;  // instruction set that kernels are dispatched to
  std::int32_t num_cores = 1, num_threads = 1;
  std::int64_t memory_bytes = 0, last_cache_bytes = 0;
  ops::MachineRates rates;
};

struct BenchDevice {
  std::unique_ptr<device::CpuDevice> device;
  BenchMachine machine;
};

// Instruction set and threads as flags and environment say; then measures the machine's rates. Of the options it reads --num-threads.
[[nodiscard]] Result<BenchDevice> open_bench_device(const config::Options& options, const config::Environment& environment);

// Lines "name: value".
[[nodiscard]] std::string machine_text(const BenchMachine& machine);
[[nodiscard]] boost::json::object machine_json(const BenchMachine& machine);

}  // namespace quire::commands
