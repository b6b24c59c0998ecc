// Host images of the last layer's part of the blocks that the self-check uses: what it put there, and what a step left there. Elements go
// through the reference's reading and writing of the layout; only whole blocks are copied to and from the device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "kv/store/kv_store.h"

namespace quire::selfcheck {

class Cells {
 public:
  Cells(const kv::KvStore& store, std::vector<std::int32_t> blocks);

  // One layer whose block i is blocks()[i].
  [[nodiscard]] const kv::KvLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<std::int32_t>& blocks() const { return blocks_; }
  [[nodiscard]] std::int32_t index_of(std::int32_t block) const { return index_.at(block); }
  [[nodiscard]] std::span<const std::byte> before() const { return before_; }
  [[nodiscard]] std::span<const std::byte> after() const { return after_; }

  // Tokens [begin, end) of a block: keys small enough that no score rules the softmax (an error in one key then shows), values of size 1.
  void randomise(std::int32_t block, std::int32_t begin, std::int32_t end);
  // ... NaN: whoever reads them shows it.
  void poison(std::int32_t block, std::int32_t begin, std::int32_t end);
  void upload(device::Stream& stream, std::span<const std::int32_t> blocks) const;
  void download(device::Stream& stream);
  // All layers' parts of every block.
  void zero_device(device::Stream& stream) const;

 private:
  template <class Value>
  void each(std::int32_t block, std::int32_t begin, std::int32_t end, Value value);
  [[nodiscard]] std::byte* device_block(std::int32_t layer, std::int32_t block) const;

  const kv::KvStore& store_;
  kv::KvLayout layout_;
  std::vector<std::int32_t> blocks_;
  std::unordered_map<std::int32_t, std::int32_t> index_;
  std::vector<std::byte> before_, after_;
  std::mt19937_64 rng_{20250601};
};

}  // namespace quire::selfcheck
