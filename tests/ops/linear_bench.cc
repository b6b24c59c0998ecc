// linear_bench [N K]: times linear of one weight on one thread, bfloat16 against FP8 with each kind of input, for several numbers of rows
// (docs/PERFORMANCE.md). Built on demand. Processor time, so that other work on the machine counts less; the best of several runs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "ops/cpu_kernels.h"
#include "ops/ops.h"

namespace {

using namespace quire;

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Memory {
  Memory(std::int64_t m, std::int64_t n, std::int64_t k)
      : bf16(static_cast<std::size_t>(n * k)), bytes(static_cast<std::size_t>(n * k)), scales(static_cast<std::size_t>(ops::Weight::scales_elements(n, k, ops::kScaleGroup)), 0.01f),
        x(static_cast<std::size_t>(m * k)), y(static_cast<std::size_t>(m * n)), x_scales(static_cast<std::size_t>(m * (k / ops::kScaleGroup + 1))), x_bytes(static_cast<std::size_t>(m * k)) {
    std::mt19937 rng(1);
    for (auto& w : bf16) w = static_cast<std::uint16_t>(0x3c00 + rng() % 512);
    for (auto& w : bytes) w = static_cast<std::uint8_t>(rng() % 0x7e);
    for (float& v : x) v = static_cast<float>(rng() % 1000) / 500.0f - 1.0f;
  }
  std::vector<std::uint16_t> bf16;
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales, x, y, x_scales;
  std::vector<std::uint8_t> x_bytes;
};

// Seconds of one call.
double time_of(device::Stream& stream, Memory& memory, std::int64_t m, ops::Weight w) {
  const ops::ActTensor x{TensorView::dense(memory.x.data(), DType::kF32, {m, w.k})}, y{TensorView::dense(memory.y.data(), DType::kF32, {m, w.n})};
  ops::ActTensor input = x;
  if (w.input.quantised()) {
    input = {TensorView::dense(memory.x_bytes.data(), ops::storage_dtype(w.input.format), {m, w.k}), w.input, w.input.row_scales(w.k) > 0 ? memory.x_scales.data() : nullptr};
    ops::quantise(stream, x, input);
  }
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    const double before = processor_seconds();
    ops::linear(stream, input, w, y);
    if (i > 0) best = std::min(best, processor_seconds() - before);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t n = argc == 3 ? std::atoll(argv[1]) : 4096, k = argc == 3 ? std::atoll(argv[2]) : 4096;
  if (n < 1 || k < 1) {
    std::fputs("usage: linear_bench [N K]\n", stderr);
    return 2;
  }
  device::CpuDevice device(1, ops::cpu_kernels());
  const std::unique_ptr<device::Stream> stream = device.make_stream();
  std::printf("%s, %lld outputs, %lld inputs\nrows  bfloat16            e4m3 static  per token  per group  float32 input   (times of bfloat16's)\n", ops::cpu_isa().c_str(), static_cast<long long>(n), static_cast<long long>(k));
  for (const std::int64_t m : {1, 4, 16, 48, 192}) {
    Memory memory(m, n, k);
    const double wide = time_of(*stream, memory, m, {.format = ops::WeightFormat::kBF16, .n = n, .k = k, .packed = memory.bf16.data()});
    std::printf("%4lld  %8.3f ms %6.1f GFLOP/s", static_cast<long long>(m), wide * 1e3, 2e-9 * static_cast<double>(m * n * k) / wide);
    for (const ops::ActScaling scaling : {ops::ActScaling::kStatic, ops::ActScaling::kPerToken, ops::ActScaling::kPerGroup, ops::ActScaling::kNone}) {
      ops::Weight w{.format = ops::WeightFormat::kFp8E4m3, .n = n, .k = k, .packed = memory.bytes.data(), .scales = memory.scales.data(), .scale_group = scaling == ops::ActScaling::kPerGroup ? ops::kScaleGroup : k};
      if (scaling != ops::ActScaling::kNone) w.input = {ops::ActFormat::kFp8E4m3, scaling, scaling == ops::ActScaling::kStatic ? 1 : 0, {0.01f}};
      std::printf("  %9.2f", time_of(*stream, memory, m, w) / wide);
    }
    std::printf("\n");
  }
  return 0;
}
