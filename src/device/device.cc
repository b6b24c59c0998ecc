#include "device/device.h"

#include "base/checked.h"

namespace quire::device {

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  device_->allocated_bytes_ -= bytes_;
  device_->rounding_bytes_ -= round_up(bytes_, device_->granule()) - bytes_;
  *account_ -= bytes_;
  device_->raw_free(data_, bytes_);
}

Result<Buffer> Device::allocate(std::size_t bytes, const std::string& what) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  if (sealed_) ++allocations_after_seal_;
  std::byte* data = raw_allocate(bytes);
  if (data == nullptr) {
    failed_account_ = what;
    return Error{ErrorCode::kResourceExhausted, "cannot allocate " + std::to_string(bytes) + " bytes on " + profile().name + " for " + what, {}};
  }
  buffer.device_ = this;
  buffer.data_ = data;
  buffer.bytes_ = bytes;
  buffer.account_ = &accounts_[what];
  *buffer.account_ += bytes;
  allocated_bytes_ += bytes;
  rounding_bytes_ += round_up(bytes, granule()) - bytes;
  return buffer;
}

}  // namespace quire::device
