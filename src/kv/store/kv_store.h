// The memory of the KV cache: one device buffer in the order that KvLayout describes. Block ids are policy; bytes are here.
#pragma once
#include <utility>

#include "base/result.h"
#include "device/device.h"
#include "kv/store/kv_layout.h"

namespace quire::kv {

class KvStore {
 public:
  [[nodiscard]] static Result<KvStore> create(device::Device& device, const KvLayout& layout) {
    auto buffer = device.allocate(static_cast<std::size_t>(layout.total_bytes()), "KV cache");
    if (!buffer.ok()) return buffer.error();
    return KvStore(layout, std::move(buffer).value());
  }
  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] void* data() const { return buffer_.data(); }

 private:
  KvStore(const KvLayout& layout, device::Buffer buffer) : layout_(layout), buffer_(std::move(buffer)) {}
  KvLayout layout_;
  device::Buffer buffer_;
};

}  // namespace quire::kv
