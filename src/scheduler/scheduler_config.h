// The scheduler's limits and policy as plain values, for those who resolve or size by them without seeing the scheduler.
#pragma once
#include <cstdint>

namespace quire {

enum class SchedulingPolicy : std::uint8_t { kFcfs, kPriority };

struct SchedulerConfig {
  std::int32_t max_num_batched_tokens = 2048;  // token budget of one step
  std::int32_t max_num_seqs = 256;             // rows in a step = device state rows
  std::int32_t max_model_len = 2048;           // longest prompt + output
  std::int32_t block_size = 16;
  std::int32_t num_blocks = 0;                 // usable KV blocks
  std::int32_t long_prefill_token_threshold = 0;  // 0: off
  bool enable_chunked_prefill = true;
  bool enable_prefix_caching = true;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  std::int32_t depth = 1;                      // steps in flight: 1 or 2
};

}  // namespace quire
