#include "attention/backend.h"

#include "ops/ops.h"

namespace quire::attention {
namespace {

using device::Geometry;
using device::KernelId;

}  // namespace

void run_attention(device::Stream& stream, const BackendCaps& backend, const LayerAttention& a, const DeviceWork& work) {
  QUIRE_CHECK(a.layout != nullptr);
  const kv::KvLayout& layout = *a.layout;
  QUIRE_CHECK(layout.key_order == backend.key_order && layout.value_order == backend.value_order) << backend.name << " reads another cell order";
  QUIRE_CHECK(a.masks.window >= 0 && a.masks.chunk >= 0 && a.masks.soft_cap >= 0.0f) << "window " << a.masks.window << ", chunk " << a.masks.chunk << ", soft cap " << a.masks.soft_cap;
  AttnParams p{.q = a.q.f32(),
               .out = a.out.f32(),
               .query_start = a.query_start,
               .seq_lens = a.seq_lens,
               .block_table = a.block_table,
               .work = nullptr,
               .parts = work.parts,
               .num_work = nullptr,
               .launch_units = 0,
               .block_table_stride = a.block_table_stride,
               .kv = ops::layer_pool(layout, a.pool, a.kv_scales, a.layer),
               .num_heads = a.num_heads,
               .head_dim = layout.head_dim,
               .block_size = layout.block_size,
               .scale = a.scale,
               .decode_query_len = work.decode_query_len,
               .masks = a.masks,
               .partials = work.partials};
  const auto launch = [&](KernelId kernel, const AttnWork* list, const std::int32_t* count, std::int64_t entries) {
    p.work = list;
    p.num_work = count;
    p.launch_units = entries * layout.num_kv_heads;
    // Work of a unit: a typical context of a few hundred tokens; only decides how units are spread.
    stream.launch(kernel, Geometry{p.launch_units, std::int64_t{512} * layout.head_dim}, p);
  };
  if (backend.split == KernelSplit::kUnified) {
    launch(device::for_storage(KernelId::kAttnUnifiedF32, layout.dtype), work.all, work.num_all, work.launch_all);
  } else {
    launch(device::for_storage(KernelId::kAttnDecodeF32, layout.dtype), work.decode, work.num_parts, work.launch_parts);
    launch(KernelId::kAttnCombine, work.decode, work.num_decode, work.launch_combine);
    launch(device::for_storage(KernelId::kAttnPrefillF32, layout.dtype), work.prefill, work.num_prefill, work.launch_prefill);
  }
}

}  // namespace quire::attention
