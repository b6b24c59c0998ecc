#include "attention/backend.h"

#include "ops/ops.h"

namespace quire::attention {
namespace {

using device::Geometry;
using device::KernelId;

// Ids of a kernel family follow each other by storage type: F32, F16, BF16 (kernel_id.h).
KernelId typed(KernelId f32, DType t) {
  QUIRE_CHECK(t == DType::kF32 || t == DType::kF16 || t == DType::kBF16);
  const int step = t == DType::kF32 ? 0 : t == DType::kF16 ? 1 : 2;
  return static_cast<KernelId>(static_cast<int>(f32) + step);
}
static_assert(static_cast<int>(KernelId::kAttnDecodeBF16) - static_cast<int>(KernelId::kAttnDecodeF32) == 2);
static_assert(static_cast<int>(KernelId::kAttnPrefillBF16) - static_cast<int>(KernelId::kAttnPrefillF32) == 2);
static_assert(static_cast<int>(KernelId::kAttnUnifiedBF16) - static_cast<int>(KernelId::kAttnUnifiedF32) == 2);

}  // namespace

void run_attention(device::Stream& stream, const BackendCaps& backend, const LayerAttention& a, const DeviceWork& work) {
  QUIRE_CHECK(a.layout != nullptr);
  const kv::KvLayout& layout = *a.layout;
  QUIRE_CHECK(layout.key_order == backend.key_order && layout.value_order == backend.value_order) << backend.name << " reads another cell order";
  AttnParams p{a.q.f32(), a.out.f32(), a.query_start, a.seq_lens, a.block_table, nullptr, nullptr, a.block_table_stride, ops::layer_pool(layout, a.pool, a.layer),
               a.num_heads, layout.head_dim, layout.block_size, a.scale};
  const auto launch = [&](KernelId family, const AttnWork* list, const std::int32_t* count, std::int64_t entries) {
    p.work = list;
    p.num_work = count;
    // Work of a unit: a typical context of a few hundred tokens; only decides how units are spread.
    stream.launch(typed(family, layout.dtype), Geometry{entries * layout.num_kv_heads, std::int64_t{512} * layout.head_dim}, p);
  };
  if (backend.split == KernelSplit::kUnified) {
    launch(KernelId::kAttnUnifiedF32, work.all, work.num_all, work.launch_all);
  } else {
    launch(KernelId::kAttnDecodeF32, work.decode, work.num_decode, work.launch_decode);
    launch(KernelId::kAttnPrefillF32, work.prefill, work.num_prefill, work.launch_prefill);
  }
}

}  // namespace quire::attention
