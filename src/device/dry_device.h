// A device of addresses alone: what is made on it gets places and accounts as on the device it stands for, but no memory, and launches
// can be recorded but never run. So the code that will allocate is the code that is planned with.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "device/device.h"

namespace quire::device {

class DryDevice final : public Device {
 public:
  // `granule`: of the device it stands for.
  DryDevice(DeviceProfile profile, std::size_t granule) : profile_(std::move(profile)), granule_(granule) {}
  [[nodiscard]] const DeviceProfile& profile() const override { return profile_; }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override;
  [[nodiscard]] std::size_t granule() const override { return granule_; }

 protected:
  std::byte* raw_allocate(std::size_t bytes) override;
  void raw_free(std::byte* data, std::size_t bytes) override;

 private:
  DeviceProfile profile_;
  std::size_t granule_;
};

}  // namespace quire::device
