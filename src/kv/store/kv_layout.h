// Where the bytes of a cached key or value are. Device-free: policy, reference and tests read it; only a (writer, reader) pair
// that was selected together may depend on a cell's inner order.
//
// A cell holds kCellTokens tokens of one KV head, keys and values apart. A block is block_size / 16 cells per head and kind:
//   layer: [block 0][block 1] ... [block n-1]
//   block: [K head 0 cells][K head 1 cells] ... [V head 0 cells][V head 1 cells] ...
//   cell:  the inner order below
#pragma once
#include <cstdint>

#include "base/check.h"
#include "base/dtype.h"

namespace quire::kv {

inline constexpr std::int32_t kCellTokens = 16;

enum class Part : std::uint8_t { kKey, kValue };

// Inner order of a cell; kDimMajor: element (token t, dim d) at d * 16 + t; kTokenMajor: at t * head_dim + d.
enum class CellOrder : std::uint8_t { kDimMajor, kTokenMajor };

struct KvLayout {
  std::int32_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  std::int32_t block_size = 16;  // tokens, a multiple of 16
  std::int64_t num_blocks = 0;
  DType dtype = DType::kBF16;    // storage of one element
  CellOrder key_order = CellOrder::kDimMajor;
  CellOrder value_order = CellOrder::kTokenMajor;

  [[nodiscard]] std::int64_t cells_per_block() const { return block_size / kCellTokens; }
  [[nodiscard]] std::int64_t cell_elements() const { return std::int64_t{kCellTokens} * head_dim; }
  [[nodiscard]] std::int64_t block_elements() const { return 2 * num_kv_heads * cells_per_block() * cell_elements(); }
  [[nodiscard]] std::int64_t layer_elements() const { return num_blocks * block_elements(); }
  [[nodiscard]] std::int64_t block_bytes() const { return block_elements() * static_cast<std::int64_t>(dtype_bytes(dtype)); }  // one layer
  [[nodiscard]] std::int64_t total_bytes() const { return num_layers * num_blocks * block_bytes(); }

  // First element of the cell with `offset` (a token position inside the block), counted from the pool's first element.
  [[nodiscard]] std::int64_t cell_start(std::int32_t layer, std::int64_t block, Part part, std::int32_t head, std::int32_t offset) const {
    QUIRE_CHECK(layer >= 0 && layer < num_layers && block >= 0 && block < num_blocks && head >= 0 && head < num_kv_heads && offset >= 0 && offset < block_size);
    const std::int64_t plane = (part == Part::kKey ? 0 : num_kv_heads) + head;
    return layer * layer_elements() + block * block_elements() + (plane * cells_per_block() + offset / kCellTokens) * cell_elements();
  }
  // The element (token `offset` of `block`, dim `d`), counted from the pool's first element. 64-bit throughout.
  [[nodiscard]] std::int64_t element(std::int32_t layer, std::int64_t block, Part part, std::int32_t head, std::int32_t offset, std::int32_t d) const {
    const std::int64_t t = offset % kCellTokens;
    const CellOrder order = part == Part::kKey ? key_order : value_order;
    return cell_start(layer, block, part, head, offset) + (order == CellOrder::kDimMajor ? d * kCellTokens + t : t * head_dim + d);
  }
};

}  // namespace quire::kv
