#include "selfcheck/cells.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "reference/kv_cache.h"

namespace quire::selfcheck {
namespace {

// Every element of a block.
template <class Visit>
void each(const kv::KvLayout& one, Visit visit) {
  reference::KvElement e;
  for (const kv::Part part : {kv::Part::kKey, kv::Part::kValue})
    for (std::int32_t head = 0; head < one.num_kv_heads; ++head)
      for (std::int32_t t = 0; t < one.block_size; ++t)
        for (std::int32_t d = 0; d < one.head_dim; ++d) {
          e.part = part, e.head = head, e.offset = t, e.dim = d;
          visit(e);
        }
}

}  // namespace

Cells::Cells(const kv::KvStore& store, device::Stream& stream, std::vector<std::int32_t> blocks)
    : store_(store), one_(store.layout()), blocks_(std::move(blocks)), scales_{std::vector<float>(kv::KvStore::num_scales(store.layout())), store.layout().num_layers, store.layout().num_kv_heads} {
  stream.copy_to_host(scales_.scales.data(), store.scales(), scales_.scales.size() * sizeof(float));
  one_.num_layers = 1;
  one_.num_blocks = 1;
  for (std::size_t i = 0; i < blocks_.size(); ++i) index_[blocks_[i]] = static_cast<std::int32_t>(i);
  nan_.resize(bytes_of(one_));
  token_of_byte_.resize(bytes_of(one_));
  const std::size_t element_bytes = dtype_bytes(one_.dtype);
  each(one_, [&](const reference::KvElement& e) {
    reference::kv_write_element(one_, nan_, e, std::numeric_limits<double>::quiet_NaN());
    const auto first = static_cast<std::size_t>(one_.element(0, 0, e.part, e.head, e.offset, e.dim)) * element_bytes;
    for (std::size_t i = 0; i < element_bytes; ++i) token_of_byte_[first + i] = e.offset;
  });
  make_images();
}

void Cells::make_images() {
  std::mt19937_64 rng(20250601);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  images_.resize(std::max(blocks_.size(), static_cast<std::size_t>(num_layers())));
  for (std::vector<std::byte>& image : images_) {
    image.resize(bytes_of(one_));
    each(one_, [&](const reference::KvElement& e) { reference::kv_write_element(one_, image, e, uniform(rng) * (e.part == kv::Part::kKey ? 0.125 : 1.0)); });
    values_.push_back(read(image));
  }
}

BlockValues Cells::read(std::span<const std::byte> block) const {
  BlockValues out;
  const auto size = static_cast<std::size_t>(one_.block_elements() / 2);
  out.keys.reserve(size);
  out.values.reserve(size);
  each(one_, [&](const reference::KvElement& e) { (e.part == kv::Part::kKey ? out.keys : out.values).push_back(reference::kv_read(one_, block, e)); });
  return out;
}

std::vector<std::byte> Cells::poisoned(std::int32_t layer, std::int32_t block, std::int32_t begin) const {
  const std::span<const std::byte> kept = image(layer, block);
  std::vector<std::byte> out(bytes_of(one_));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = token_of_byte_[i] < begin ? kept[i] : nan_[i];
  return out;
}

std::byte* Cells::device_block(std::int32_t layer, std::int32_t block) const {
  const kv::KvLayout& pool = store_.layout();
  return static_cast<std::byte*>(store_.data()) + pool.cell_start(layer, block, kv::Part::kKey, 0, 0) * static_cast<std::int64_t>(dtype_bytes(pool.dtype));
}

void Cells::upload(device::Stream& stream, std::int32_t layer, std::int32_t block, std::span<const std::byte> bytes) const { stream.copy_to_device(device_block(layer, block), bytes.data(), bytes.size()); }

void Cells::download(device::Stream& stream, std::int32_t layer, std::int32_t block, std::span<std::byte> bytes) const { stream.copy_to_host(bytes.data(), device_block(layer, block), bytes.size()); }

void Cells::fill(device::Stream& stream, std::span<const std::int32_t> blocks, Fill with) const {
  const std::vector<std::byte> zeros(bytes_of(one_));
  for (std::int32_t layer = 0; layer < num_layers(); ++layer)
    for (const std::int32_t b : blocks) upload(stream, layer, b, with == Fill::kImages ? image(layer, b) : std::span<const std::byte>(zeros));
}

}  // namespace quire::selfcheck
