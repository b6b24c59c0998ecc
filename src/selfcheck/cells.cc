#include "selfcheck/cells.h"

#include <limits>
#include <utility>

#include "reference/kv_cache.h"

namespace quire::selfcheck {

Cells::Cells(const kv::KvStore& store, std::vector<std::int32_t> blocks) : store_(store), layout_(store.layout()), blocks_(std::move(blocks)) {
  layout_.num_layers = 1;
  layout_.num_blocks = static_cast<std::int64_t>(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) index_[blocks_[i]] = static_cast<std::int32_t>(i);
  before_.resize(static_cast<std::size_t>(layout_.total_bytes()));
  after_.resize(before_.size());
}

template <class Value>
void Cells::each(std::int32_t block, std::int32_t begin, std::int32_t end, Value value) {
  reference::KvElement e{.block = index_of(block)};
  for (const kv::Part part : {kv::Part::kKey, kv::Part::kValue})
    for (std::int32_t head = 0; head < layout_.num_kv_heads; ++head)
      for (std::int32_t t = begin; t < end; ++t)
        for (std::int32_t d = 0; d < layout_.head_dim; ++d) {
          e.part = part, e.head = head, e.offset = t, e.dim = d;
          reference::kv_write_element(layout_, before_, e, value(part));
        }
}

void Cells::randomise(std::int32_t block, std::int32_t begin, std::int32_t end) {
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  each(block, begin, end, [&](kv::Part part) { return uniform(rng_) * (part == kv::Part::kKey ? 0.125 : 1.0); });
}

void Cells::poison(std::int32_t block, std::int32_t begin, std::int32_t end) {
  each(block, begin, end, [](kv::Part) { return std::numeric_limits<double>::quiet_NaN(); });
}

std::byte* Cells::device_block(std::int32_t layer, std::int32_t block) const {
  const kv::KvLayout& pool = store_.layout();
  return static_cast<std::byte*>(store_.data()) + pool.cell_start(layer, block, kv::Part::kKey, 0, 0) * static_cast<std::int64_t>(dtype_bytes(pool.dtype));
}

void Cells::upload(device::Stream& stream, std::span<const std::int32_t> blocks) const {
  const auto bytes = static_cast<std::size_t>(layout_.block_bytes());
  for (const std::int32_t b : blocks) stream.copy_to_device(device_block(store_.layout().num_layers - 1, b), before_.data() + static_cast<std::size_t>(index_of(b)) * bytes, bytes);
}

void Cells::download(device::Stream& stream) {
  const auto bytes = static_cast<std::size_t>(layout_.block_bytes());
  for (std::size_t i = 0; i < blocks_.size(); ++i) stream.copy_to_host(after_.data() + i * bytes, device_block(store_.layout().num_layers - 1, blocks_[i]), bytes);
}

void Cells::zero_device(device::Stream& stream) const {
  const std::vector<std::byte> zeros(static_cast<std::size_t>(layout_.block_bytes()));
  for (std::int32_t layer = 0; layer < store_.layout().num_layers; ++layer)
    for (const std::int32_t b : blocks_) stream.copy_to_device(device_block(layer, b), zeros.data(), zeros.size());
}

}  // namespace quire::selfcheck
