// What the blocks of the self-check hold: the images that it puts there, layer by layer, and reading blocks back. Elements go through the
// reference's reading and writing of the layout; only whole blocks are copied to and from the device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "kv/store/kv_store.h"
#include "selfcheck/scales.h"

namespace quire::selfcheck {

// A block of one layer as stored numbers, which the scales of an FP8 cache multiply.
struct BlockValues {
  std::vector<double> keys, values;  // [num_kv_heads, block_size, head_dim]
};

// Of one block of one layer.
[[nodiscard]] inline std::size_t bytes_of(const kv::KvLayout& block) { return static_cast<std::size_t>(block.block_bytes()); }

enum class Fill { kImages, kZeros };

class Cells {
 public:
  // Reads the scales of an FP8 cache through the stream.
  Cells(const kv::KvStore& store, device::Stream& stream, std::vector<std::int32_t> blocks);

  // Of one block of one layer.
  [[nodiscard]] const kv::KvLayout& block_layout() const { return one_; }
  [[nodiscard]] std::int32_t num_layers() const { return store_.layout().num_layers; }
  [[nodiscard]] const std::vector<std::int32_t>& blocks() const { return blocks_; }

  // As the store holds them.
  [[nodiscard]] const ScaleTable& scales() const { return scales_; }

  // What a block holds between steps: keys small enough that no score rules the softmax (an error in one key then shows), values of size
  // 1. No two blocks of a layer and no two layers of a block hold the same.
  [[nodiscard]] std::span<const std::byte> image(std::int32_t layer, std::int32_t block) const { return images_[image_of(layer, block)]; }
  [[nodiscard]] const BlockValues& values(std::int32_t layer, std::int32_t block) const { return values_[image_of(layer, block)]; }
  // The same with NaN from token `begin` on: whoever reads that shows it.
  [[nodiscard]] std::vector<std::byte> poisoned(std::int32_t layer, std::int32_t block, std::int32_t begin) const;
  // The token of a block that one of its bytes belongs to.
  [[nodiscard]] std::int32_t token_of_byte(std::size_t byte) const { return token_of_byte_[byte]; }
  [[nodiscard]] BlockValues read(std::span<const std::byte> block) const;

  void upload(device::Stream& stream, std::int32_t layer, std::int32_t block, std::span<const std::byte> bytes) const;
  void download(device::Stream& stream, std::int32_t layer, std::int32_t block, std::span<std::byte> bytes) const;
  // These blocks in every layer: their images, or zeros.
  void fill(device::Stream& stream, std::span<const std::int32_t> blocks, Fill with) const;

 private:
  void make_images();
  [[nodiscard]] std::size_t image_of(std::int32_t layer, std::int32_t block) const { return (static_cast<std::size_t>(index_.at(block)) + static_cast<std::size_t>(layer)) % images_.size(); }
  [[nodiscard]] std::byte* device_block(std::int32_t layer, std::int32_t block) const;

  const kv::KvStore& store_;
  kv::KvLayout one_;
  std::vector<std::int32_t> blocks_;
  std::unordered_map<std::int32_t, std::int32_t> index_;
  std::vector<std::vector<std::byte>> images_;
  std::vector<BlockValues> values_;
  std::vector<std::byte> nan_;
  std::vector<std::int32_t> token_of_byte_;
  ScaleTable scales_;
};

}  // namespace quire::selfcheck
