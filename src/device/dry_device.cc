#include "device/dry_device.h"

#include <sys/mman.h>

namespace quire::device {
namespace {

class DryStream final : public Stream {
 public:
  void copy_to_device(void*, const void*, std::size_t) override { QUIRE_CHECK(false) << "a dry device holds no bytes"; }
  void copy_to_host(void*, const void*, std::size_t) override { QUIRE_CHECK(false) << "a dry device holds no bytes"; }
  void synchronize() override {}

 protected:
  void run(const Launch& launch) override { QUIRE_CHECK(false) << "a dry device runs nothing: " << kernel_name(launch.id); }
};

}  // namespace

std::unique_ptr<Stream> DryDevice::make_stream() { return std::make_unique<DryStream>(); }

// Address space that nothing may touch: pointers into it are as good as real ones until somebody reads through one.
std::byte* DryDevice::raw_allocate(std::size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

void DryDevice::raw_free(std::byte* data, std::size_t bytes) { ::munmap(data, bytes); }

}  // namespace quire::device
