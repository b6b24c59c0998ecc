// The CPU as a device: plain memory, a stream that runs launches at once on a thread pool, recording and replay like a GPU's.
#pragma once
#include <array>
#include <memory>
#include <span>

#include "device/cpu/thread_pool.h"
#include "device/device.h"

namespace quire::device {

inline constexpr std::size_t kCpuPageBytes = 4096;  // allocations take whole pages

// A kernel runs units [begin, end) of a launch. Units are independent; the split must not change results.
struct CpuKernel {
  KernelId id;
  ThreadPool::Body run;
};

class CpuDevice final : public Device {
 public:
  // `kernels` lists what this device can run (ops and attention name theirs; the program joins the lists). Ids must be unique.
  CpuDevice(int num_threads, std::span<const CpuKernel> kernels);
  [[nodiscard]] const DeviceProfile& profile() const override { return profile_; }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override;
  [[nodiscard]] std::size_t granule() const override { return kCpuPageBytes; }
  [[nodiscard]] ThreadPool& pool() { return pool_; }
  [[nodiscard]] ThreadPool::Body kernel(KernelId id) const { return kernels_[static_cast<std::size_t>(id)]; }

 protected:
  std::byte* raw_allocate(std::size_t bytes) override;
  void raw_free(std::byte* data, std::size_t bytes) override;

 private:
  DeviceProfile profile_;
  ThreadPool pool_;
  std::array<ThreadPool::Body, kNumKernels> kernels_{};
};

// This machine's processor (from /proc).
[[nodiscard]] DeviceProfile read_cpu_profile();

}  // namespace quire::device
