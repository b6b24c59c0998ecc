#include <array>

#include "attention/capability.h"
#include "attention/params.h"

namespace quire::attention {
namespace {

constexpr std::array kCpuKvDTypes = {DType::kF32, DType::kF16, DType::kBF16};

constexpr std::array kTable = {
    BackendCaps{.name = "CPU_UNIFIED",
                .device_family = "cpu",
                .split = KernelSplit::kUnified,
                .graph_support = GraphSupport::kAlways,
                .min_head_dim = 8,
                .max_head_dim = kMaxHeadDim,
                .head_dim_multiple = 2,
                .max_group = kMaxGroup,
                .block_size_multiple = kv::kCellTokens,
                .kv_dtypes = kCpuKvDTypes,
                .key_order = kv::CellOrder::kDimMajor,
                .value_order = kv::CellOrder::kTokenMajor,
                .summary = "one kernel for decode, extend and prefill rows"},
    BackendCaps{.name = "CPU_SPLIT",
                .device_family = "cpu",
                .split = KernelSplit::kDecodeAndPrefill,
                .graph_support = GraphSupport::kUniformSingleTokenDecode,
                .min_head_dim = 8,
                .max_head_dim = kMaxHeadDim,
                .head_dim_multiple = 2,
                .max_group = kMaxGroup,
                .block_size_multiple = kv::kCellTokens,
                .kv_dtypes = kCpuKvDTypes,
                .key_order = kv::CellOrder::kDimMajor,
                .value_order = kv::CellOrder::kTokenMajor,
                .summary = "a decode kernel and a prefill kernel, each for its own rows"},
};

consteval bool names_unique() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kTable[i].name == kTable[j].name) return false;
  return true;
}
static_assert(names_unique(), "a backend's name is its key");

}  // namespace

std::span<const BackendCaps> backend_table() { return kTable; }

std::string AttnProblem::describe() const {
  return std::to_string(num_heads) + "/" + std::to_string(num_kv_heads) + " heads of " + std::to_string(head_dim) + ", block " + std::to_string(block_size) + ", KV " + dtype_name(kv_dtype);
}

}  // namespace quire::attention
