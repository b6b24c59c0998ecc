// The question (AttnProblem), the offers (BackendCaps rows) and their graded graph support. Plain values without device headers: docs,
// selection, explain and tests read the same rows (table.cc).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/mode.h"
#include "kv/store/kv_layout.h"

namespace quire::attention {

using graph::graph_support_name;
using graph::GraphSupport;

// What a model and its settings ask of attention. Layers of one model share it.
struct AttnProblem {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int32_t block_size = 16;
  DType kv_dtype = DType::kBF16;
  [[nodiscard]] std::int32_t group() const { return num_heads / num_kv_heads; }
  [[nodiscard]] std::string describe() const;
};

enum class KernelSplit : std::uint8_t { kUnified, kDecodeAndPrefill };

// One backend on one device family: everything it supports. Nothing else in the program may state support.
struct BackendCaps {
  std::string_view name;           // unique; what --attention-backend takes
  std::string_view device_family;  // "cpu"
  KernelSplit split;
  GraphSupport graph_support;
  std::int32_t min_head_dim, max_head_dim, head_dim_multiple;
  std::int32_t max_group;          // query heads per KV head
  std::int32_t block_size_multiple;
  std::span<const DType> kv_dtypes;
  kv::CellOrder key_order, value_order;  // the layout its writer and readers share
  std::string_view summary;        // one line for documents
};

// Rows in order of preference.
[[nodiscard]] std::span<const BackendCaps> backend_table();

}  // namespace quire::attention
