// The memory of the KV cache: one device buffer in the order that KvLayout describes, and the scales of an FP8 one. Block ids are
// policy; bytes are here.
#pragma once
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kv/store/kv_layout.h"

namespace quire::kv {

class KvStore {
 public:
  // Scales are 0, so useless, until set_scales().
  [[nodiscard]] static Result<KvStore> create(device::Device& device, const KvLayout& layout) {
    auto buffer = device.allocate(static_cast<std::size_t>(layout.total_bytes()), "KV cache");
    if (!buffer.ok()) return buffer.error();
    if (!is_fp8(layout.dtype)) return KvStore(layout, std::move(buffer).value(), {});
    auto scales = device.allocate(scale_bytes(layout), "KV scales");
    if (!scales.ok()) return scales.error();
    return KvStore(layout, std::move(buffer).value(), std::move(scales).value());
  }
  [[nodiscard]] static std::size_t num_scales(const KvLayout& layout) {
    return is_fp8(layout.dtype) ? static_cast<std::size_t>(layout.num_layers) * 2 * static_cast<std::size_t>(layout.num_kv_heads) : 0;
  }
  [[nodiscard]] static std::size_t scale_bytes(const KvLayout& layout) { return num_scales(layout) * sizeof(float); }

  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] void* data() const { return buffer_.data(); }
  // [num_layers, 2, num_kv_heads]: of keys, then of values; element = stored number * scale. nullptr: not FP8.
  [[nodiscard]] const float* scales() const { return reinterpret_cast<const float*>(scales_.data()); }
  // Every scale, finite and above 0, in the order of scales(). Cells that are filled already change their meaning.
  void set_scales(std::span<const float> scales) {
    QUIRE_CHECK_EQ(scales.size(), num_scales(layout_));
    for (const float s : scales) QUIRE_CHECK(s > 0.0f && s <= 3.4028234e38f) << "KV scale " << s;
    std::ranges::copy(scales, reinterpret_cast<float*>(scales_.data()));
  }
  // Blocks [0, count) of every layer, for those who used the pool before it serves.
  void zero_blocks(device::Stream& stream, std::int64_t count) const {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(layout_.block_bytes()));
    for (std::int32_t layer = 0; layer < layout_.num_layers; ++layer)
      for (std::int64_t block = 0; block < count; ++block)
        stream.copy_to_device(buffer_.data() + layout_.cell_start(layer, block, Part::kKey, 0, 0) * static_cast<std::int64_t>(dtype_bytes(layout_.dtype)), zeros.data(), zeros.size());
    stream.synchronize();
  }

 private:
  KvStore(const KvLayout& layout, device::Buffer buffer, device::Buffer scales) : layout_(layout), buffer_(std::move(buffer)), scales_(std::move(scales)) {}
  KvLayout layout_;
  device::Buffer buffer_, scales_;
};

}  // namespace quire::kv
