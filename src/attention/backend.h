// Runs a planned step's attention for one layer with the selected backend. Launches only; never allocates, never reads lengths.
#pragma once
#include <cstdint>

#include "attention/capability.h"
#include "attention/params.h"
#include "device/device.h"
#include "kv/store/kv_layout.h"
#include "ops/tensors.h"

namespace quire::attention {

// The plan on the device: one array of entries for each list and their counts. The unified kernel reads `all`. A split backend launches
// decode for `parts`, then combine for the decode list.
struct DeviceWork {
  const AttnWork *decode = nullptr, *prefill = nullptr, *all = nullptr;  // prefill holds extend and prefill rows
  const std::int32_t *num_decode = nullptr, *num_prefill = nullptr, *num_all = nullptr;
  // Geometry: entries to launch for. Eager: the counts themselves, and a list of 0 is not launched. Recorded: the most there can be.
  std::int64_t launch_decode = 0, launch_prefill = 0, launch_all = 0;
  const DecodePart* parts = nullptr;
  const std::int32_t* num_parts = nullptr;
  std::int64_t launch_parts = 0;
  std::int64_t launch_combine = 0;     // entries of the decode list; eager: 0 when none is split
  std::int32_t decode_query_len = 1;   // of the plan
  Partials partials;                   // room for the plan's slots
};

struct LayerAttention {
  ops::ActTensor q, out;              // [tokens, num_heads * head_dim]
  const std::int32_t* query_start = nullptr;  // [rows + 1]
  const std::int32_t* seq_lens = nullptr;     // [rows], new tokens included
  const std::int32_t* block_table = nullptr;  // [state rows, block_table_stride]
  std::int64_t block_table_stride = 0;
  std::int32_t num_heads = 0;
  float scale = 0.0f;                 // of scores
  const kv::KvLayout* layout = nullptr;
  void* pool = nullptr;               // the cache: layout->total_bytes()
  const float* kv_scales = nullptr;   // as ops::layer_pool takes them
  std::int32_t layer = 0;
  MaskParams masks = {};
};

void run_attention(device::Stream& stream, const BackendCaps& backend, const LayerAttention& args, const DeviceWork& work);

}  // namespace quire::attention
