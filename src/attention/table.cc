// The capability table. The rows of devices that are not built yet state what those backends must do: limits of the ROCm rows come from the
// two paths that vLLM has there, those of the CUDA rows from our own kernels' design.
#include <array>

#include "attention/capability.h"
#include "attention/device_family.h"
#include "attention/params.h"
#include "attention/workspace.h"

namespace quire::attention {
namespace {

using kv::KvFormat;

constexpr std::string_view kCpuFamilies[] = {"cpu"};
constexpr std::string_view kSm90Families[] = {"sm90"};
constexpr std::string_view kCudaFamilies[] = {"sm80", "sm89", "sm90", "sm100"};
constexpr std::string_view kInstinctFamilies[] = {"gfx90a", "gfx942", "gfx950"};
constexpr std::string_view kRocmFamilies[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201"};

constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr DType kHalves[] = {DType::kF16, DType::kBF16};

constexpr KvFormat kGpuFormats[] = {KvFormat::kF16, KvFormat::kBF16, KvFormat::kFp8E4m3, KvFormat::kFp8E5m2};
constexpr KvFormat kSm90PrefillFormats[] = {KvFormat::kBF16, KvFormat::kFp8E4m3, KvFormat::kFp8E5m2};
constexpr KvFormat kRocmFastFormats[] = {KvFormat::kF16, KvFormat::kBF16, KvFormat::kFp8E4m3, KvFormat::kFp8E4m3Fnuz};
// Everything: on the CPU, and in the kernels that convert without hardware.
constexpr KvFormat kGenericFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kFp8E4m3, KvFormat::kFp8E4m3Fnuz, KvFormat::kFp8E5m2};
constexpr KvFormat kCudaGenericFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kFp8E4m3, KvFormat::kFp8E5m2};

constexpr std::int32_t kSm90Heads[] = {64, 80, 96, 112, 120, 128, 192, 256};
constexpr std::int32_t kGenericHeads[] = {32, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256};
constexpr std::int32_t kRocmFastHeads[] = {64, 128, 256};
constexpr std::int32_t kRocmFastBlocks[] = {16, 32};

constexpr MaskSet kEveryMask = {Mask::kSlidingWindow, Mask::kChunkedLocal, Mask::kAlibi, Mask::kSoftCap, Mask::kSinks};

constexpr ClassCaps kCpuCaps = {
    .min_head_dim = 8, .max_head_dim = kMaxHeadDim, .head_dim_multiple = 2, .max_group = kMaxGroup, .query_dtypes = kFloats, .kv_formats = kGenericFormats, .masks = kEveryMask};
constexpr ClassCaps kSm90Decode = {.head_sizes = kSm90Heads, .query_dtypes = kHalves, .kv_formats = kGpuFormats, .masks = kEveryMask};
constexpr ClassCaps kSm90Prefill = {.head_sizes = kSm90Heads, .query_dtypes = kHalves, .kv_formats = kSm90PrefillFormats, .masks = kEveryMask};
constexpr ClassCaps kCudaGenericCaps = {.head_sizes = kGenericHeads, .query_dtypes = kFloats, .kv_formats = kCudaGenericFormats, .masks = kEveryMask};
constexpr ClassCaps kRocmFastCaps = {.head_sizes = kRocmFastHeads,
                                      .block_sizes = kRocmFastBlocks,
                                      .query_dtypes = kHalves,
                                      .kv_formats = kRocmFastFormats,
                                      .masks = {Mask::kSlidingWindow, Mask::kAlibi, Mask::kSoftCap}};
constexpr ClassCaps kRocmGenericCaps = {.head_sizes = kGenericHeads, .query_dtypes = kFloats, .kv_formats = kGenericFormats, .masks = kEveryMask};

constexpr WorkspaceRule kSplitDecode = {"split_decode_slots", split_decode_slots};

constexpr auto kToken = kv::CellOrder::kTokenMajor;
constexpr auto kDim = kv::CellOrder::kDimMajor;

constexpr std::array kTable = {
    BackendCaps{.name = "CPU_UNIFIED",
                .families = kCpuFamilies,
                .split = KernelSplit::kUnified,
                .graph_support = GraphSupport::kAlways,
                .decode = kCpuCaps,
                .extend = kCpuCaps,
                .prefill = kCpuCaps,
                .key_order = kDim,
                .value_order = kToken,
                .summary = "one kernel for decode, extend and prefill rows"},
    BackendCaps{.name = "CPU_SPLIT",
                .families = kCpuFamilies,
                .split = KernelSplit::kDecodeAndPrefill,
                .graph_support = GraphSupport::kUniformSingleTokenDecode,
                .decode = kCpuCaps,
                .extend = kCpuCaps,
                .prefill = kCpuCaps,
                .workspace = kSplitDecode,
                .key_order = kDim,
                .value_order = kToken,
                .summary = "a decode kernel and a prefill kernel, each for its own rows"},
    BackendCaps{.name = "CUDA_SM90",
                .families = kSm90Families,
                .split = KernelSplit::kDecodeAndPrefill,
                .graph_support = GraphSupport::kAlways,
                .decode = kSm90Decode,
                .extend = kSm90Prefill,
                .prefill = kSm90Prefill,
                .workspace = kSplitDecode,
                .key_order = kToken,
                .value_order = kToken,
                .built = Built::kNo,
                .summary = "tensor-core decode and prefill kernels that read the cache directly"},
    BackendCaps{.name = "CUDA_GENERIC",
                .families = kCudaFamilies,
                .split = KernelSplit::kUnified,
                .graph_support = GraphSupport::kAlways,
                .decode = kCudaGenericCaps,
                .extend = kCudaGenericCaps,
                .prefill = kCudaGenericCaps,
                .key_order = kToken,
                .value_order = kToken,
                .built = Built::kNo,
                .summary = "plain kernels for every shape and every device of this platform"},
    // Split kernels behind one opt-in name. Single-token decode only: a batch whose rows have several tokens each is cut off by budgets
    // and truncated drafts, so "uniform" would be a promise that the scheduler does not keep.
    BackendCaps{.name = "ROCM_FAST",
                .alias = "ROCM_AITER_FA",
                .families = kInstinctFamilies,
                .split = KernelSplit::kDecodeAndPrefill,
                .graph_support = GraphSupport::kUniformSingleTokenDecode,
                .decode = kRocmFastCaps,
                .extend = kRocmFastCaps,
                .prefill = kRocmFastCaps,
                .workspace = kSplitDecode,
                .key_order = kToken,
                .value_order = kToken,
                .built = Built::kNo,
                .opt_in = OptIn::kByName,
                .summary = "matrix-core decode and prefill kernels for Instinct"},
    BackendCaps{.name = "ROCM_GENERIC",
                .alias = "ROCM_ATTN",
                .families = kRocmFamilies,
                .split = KernelSplit::kUnified,
                .graph_support = GraphSupport::kAlways,
                .decode = kRocmGenericCaps,
                .extend = kRocmGenericCaps,
                .prefill = kRocmGenericCaps,
                .key_order = kToken,
                .value_order = kToken,
                .built = Built::kNo,
                .summary = "plain kernels for every shape, Radeon included"},
};

constexpr std::string_view kNeedsCuda = "needs a CUDA device";
constexpr std::string_view kNeedsHip = "needs a ROCm device";
constexpr std::string_view kNeedsMla = "needs a GPU and a model with latent attention";
constexpr std::string_view kNeedsTriton = "needs a GPU and a kernel compiler at run time";
constexpr std::array kForeign = {
    ForeignBackend{"FLASH_ATTN", kNeedsCuda},
    ForeignBackend{"FLASH_ATTN_VLLM_V1", kNeedsCuda},
    ForeignBackend{"FLASHINFER", kNeedsCuda},
    ForeignBackend{"FLASHINFER_VLLM_V1", kNeedsCuda},
    ForeignBackend{"XFORMERS", kNeedsCuda},
    ForeignBackend{"XFORMERS_VLLM_V1", kNeedsCuda},
    ForeignBackend{"TRITON_ATTN", kNeedsTriton},
    ForeignBackend{"TRITON_ATTN_VLLM_V1", kNeedsTriton},
    ForeignBackend{"FLEX_ATTENTION", kNeedsTriton},
    ForeignBackend{"TREE_ATTN", kNeedsTriton},
    ForeignBackend{"ROCM_FLASH", kNeedsHip},
    ForeignBackend{"ROCM_AITER_UNIFIED_ATTN", kNeedsHip},
    ForeignBackend{"ROCM_AITER_MLA", kNeedsMla},
    ForeignBackend{"ROCM_AITER_MLA_SPARSE", kNeedsMla},
    ForeignBackend{"ROCM_AITER_TRITON_MLA", kNeedsMla},
    ForeignBackend{"TRITON_MLA", kNeedsMla},
    ForeignBackend{"FLASHMLA", kNeedsMla},
    ForeignBackend{"FLASHMLA_SPARSE", kNeedsMla},
    ForeignBackend{"FLASH_ATTN_MLA", kNeedsMla},
    ForeignBackend{"FLASHINFER_MLA", kNeedsMla},
    ForeignBackend{"CUTLASS_MLA", kNeedsMla},
    ForeignBackend{"TORCH_SDPA", "is PyTorch's"},
    ForeignBackend{"CPU_ATTN", "is another engine's"},
};

consteval bool names_unique() {
  std::array<std::string_view, 2 * kTable.size() + kForeign.size()> names{};
  std::size_t n = 0;
  for (const BackendCaps& row : kTable) {
    names[n++] = row.name;
    if (!row.alias.empty()) names[n++] = row.alias;
  }
  for (const ForeignBackend& foreign : kForeign) names[n++] = foreign.name;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (names[i] == names[j]) return false;
  return true;
}
static_assert(names_unique(), "a backend's name is its key");

// A decode kernel of its own computes partitions apart and needs room for them (backend.h). By name: under UBSan a function's address is
// no constant.
consteval bool split_rows_have_workspace() {
  for (const BackendCaps& row : kTable)
    if (row.split == KernelSplit::kDecodeAndPrefill && row.workspace.name == WorkspaceRule{}.name) return false;
  return true;
}
static_assert(split_rows_have_workspace());

}  // namespace

std::span<const BackendCaps> backend_table() { return kTable; }
std::span<const ForeignBackend> foreign_backends() { return kForeign; }

}  // namespace quire::attention
