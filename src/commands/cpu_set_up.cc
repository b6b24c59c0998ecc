#include "commands/cpu_set_up.h"

#include "attention/cpu_kernels.h"
#include "ops/cpu_kernels.h"

namespace quire::commands {

std::vector<device::CpuKernel> all_cpu_kernels() {
  std::vector<device::CpuKernel> all;
  for (const auto& k : ops::cpu_kernels()) all.push_back(k);
  for (const auto& k : attention::cpu_kernels()) all.push_back(k);
  return all;
}

Status limit_isa(const std::string& cpu_isa) {
  if (cpu_isa == "auto") return {};
  std::string name = cpu_isa;  // the kernels' names of instruction sets are in capitals
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return ops::limit_cpu_isa(name);
}

}  // namespace quire::commands
