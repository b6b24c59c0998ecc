// A KvBatch on a CPU device with its plan: runs a backend over it, and what the tests of attention compare.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/backend.h"
#include "attention/plan.h"
#include "device/cpu/cpu_device.h"
#include "kit/guarded_buffer.h"
#include "kit/kv_fixture.h"

namespace quire::test {

[[nodiscard]] const attention::BackendCaps& backend_named(const std::string& name);

inline constexpr const char* kBackends[] = {"CPU_UNIFIED", "CPU_SPLIT"};

struct PlanOptions {
  reference::AttentionMasks masks = {};
  std::int32_t decode_query_len = 1;
  std::int64_t partial_slots = 64;  // for split decode
};

// The device arrays of one step. Block tables lie in permuted state rows with NaN blocks' ids between them.
struct AttentionStep {
  explicit AttentionStep(const KvBatch& batch, int threads = 1, const PlanOptions& options = {});
  AttentionStep(const AttentionStep&) = delete;
  // The rows of the batch in order; padding rows have no work. Output elements that no work owns stay NaN.
  [[nodiscard]] std::vector<float> run(const std::string& backend, std::int64_t extra_launch = 0);
  void launch(device::Stream& stream, const std::string& backend, std::int64_t extra_launch);

  const KvBatch& b;
  float scale;
  std::shared_ptr<device::CpuDevice> device;
  std::unique_ptr<device::Stream> stream;
  std::vector<std::byte> pool;  // a copy, padded so that it can be misaligned against the page
  std::vector<float> queries;
  GuardedBuffer out;
  std::vector<std::int32_t> tables;
  std::int64_t table_stride = 0;
  std::vector<attention::AttnWork> decode, prefill, all;
  std::vector<attention::DecodePart> parts;
  std::int32_t counts[4] = {0, 0, 0, 0};  // decode, prefill, all, parts
  std::int32_t num_split = 0;
  PlanOptions options;
  attention::MaskParams masks;
  [[nodiscard]] attention::DeviceWork work(std::int64_t extra_launch);

 private:
  std::vector<float> slopes_, sinks_;
  GuardedBuffer partial_acc_, partial_stats_;
};

// A case over one sequence shape per entry of `lens`: (query, sequence) lengths.
struct ShapeCase {
  DType dtype = DType::kF32;
  std::int32_t num_heads = 4, num_kv_heads = 2, head_dim = 64, block_size = 16;
  std::vector<std::pair<std::int32_t, std::int32_t>> lens = {};
  std::int32_t padding_rows = 1;
  double magnitude = 1.0;
  [[nodiscard]] KvCase kv_case() const;
  [[nodiscard]] std::string describe() const;
};

// Expects the twin's values within derived bounds, row by row from the fixture's plain matrices: independent of pool, layout and tables.
void expect_right(const KvBatch& b, float scale, const reference::AttentionMasks& masks, const std::vector<float>& got, const std::string& what);

// Only the rows [first, first + count) of a sequence's query, in the same pool: all of its tokens before them are cached.
[[nodiscard]] KvBatch part_of(const KvBatch& b, std::size_t sequence, std::int32_t first, std::int32_t count);

// Expects of a recorded step that it writes nothing where all counts are 0, and then `want` with the counts that it has now.
void expect_replays(AttentionStep& step, const device::Graph& graph, const std::vector<float>& want, const std::string& what);

// Rows of one sequence.
[[nodiscard]] std::vector<float> rows_of(const KvBatch& b, const std::vector<float>& out, std::size_t sequence);

}  // namespace quire::test
