#include "device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/checked.h"
#include "device/cpu/launch_times.h"

namespace quire::device {
namespace {

std::atomic<LaunchTimes*> launch_times = nullptr;

class CpuStream final : public Stream {
 public:
  explicit CpuStream(CpuDevice& device) : device_(device) {}
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    QUIRE_CHECK(!recording()) << "a host copy cannot be recorded";
    if (bytes != 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    QUIRE_CHECK(!recording()) << "a host copy cannot be recorded";
    if (bytes != 0) std::memcpy(host, device, bytes);
  }
  void synchronize() override {}

 protected:
  void run(const Launch& launch) override {
    const ThreadPool::Body body = device_.kernel(launch.id);
    QUIRE_CHECK(body != nullptr) << "the CPU device has no kernel " << kernel_name(launch.id);
    LaunchTimes* const times = launch_times.load(std::memory_order_acquire);
    const auto from = times == nullptr ? Clock::time_point() : Clock::now();
    device_.pool().run(body, launch.params.data(), launch.geometry.units, launch.geometry.unit_work);
    if (times != nullptr) times->add(launch.id, Clock::now() - from);
  }

 private:
  using Clock = std::chrono::steady_clock;
  CpuDevice& device_;
};

}  // namespace

void time_launches(LaunchTimes* into) { launch_times.store(into, std::memory_order_release); }

DeviceProfile read_cpu_profile() {
  DeviceProfile profile;
  profile.family = "cpu";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) profile.name = line.substr(colon + 2);
    break;
  }
  if (profile.name.empty()) profile.name = "CPU";
  return profile;
}

CpuDevice::CpuDevice(int num_threads, std::span<const CpuKernel> kernels) : profile_(read_cpu_profile()), pool_(num_threads) {
  for (const CpuKernel& kernel : kernels) {
    auto& entry = kernels_[static_cast<std::size_t>(kernel.id)];
    QUIRE_CHECK(entry == nullptr) << kernel_name(kernel.id) << " is listed twice";
    entry = kernel.run;
  }
}

std::unique_ptr<Stream> CpuDevice::make_stream() { return std::make_unique<CpuStream>(*this); }

// Anonymous mappings: zeroed, page-aligned, given back to the system at once when freed; large ones in huge pages where allowed.
std::byte* CpuDevice::raw_allocate(std::size_t bytes) {
  constexpr std::size_t kHuge = 2u << 20;
  void* p = ::mmap(nullptr, round_up(bytes, kCpuPageBytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (bytes >= kHuge) ::madvise(p, round_up(bytes, kCpuPageBytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(p);
}

void CpuDevice::raw_free(std::byte* data, std::size_t bytes) { ::munmap(data, round_up(bytes, kCpuPageBytes)); }

}  // namespace quire::device
