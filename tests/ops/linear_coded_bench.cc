// linear_coded_bench [TYPE]: times linears of GGUF's types (docs/PERFORMANCE.md). First one weight on one thread, in processor time, so that other work on
// the machine counts less. Then all linears of a step of SmolLM2-135M (30 layers and the head) for 1, 8 and 512 rows on one thread and on two, by the
// clock: weights are read in the order of a model, so that one row takes them from memory. The best of several passes. Built on demand.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "ops/coded.h"
#include "ops/cpu_kernels.h"
#include "ops/ops.h"

namespace {

using namespace quire;

struct Shape {
  std::int64_t n, k;
};
constexpr Shape kLayer[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
constexpr Shape kHead{49152, 576};
constexpr int kLayers = 30;
constexpr std::int64_t kMostRows = 512, kMostInputs = 1536, kMostOutputs = 3072;

class Model {
 public:
  // K types have rows of 256: 768 and 1536 inputs there.
  explicit Model(ops::WeightFormat format) : format_(format) {
    for (int layer = 0; layer < kLayers; ++layer)
      for (const Shape& s : kLayer) add(s);
    add(kHead);
  }
  // All linears, the head for at most 8 rows (a prompt needs one).
  void run(device::Stream& stream, std::int64_t rows) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const ops::Weight& w = weights_[i];
      const std::int64_t m = i + 1 < weights_.size() ? rows : rows > 8 ? 1 : rows;
      const ops::ActTensor x{TensorView::dense(x_.data(), DType::kU8, {m, w.k}), ops::kInt8Input, floats_.data(), 0};
      ops::linear(stream, x, w, ops::ActTensor{TensorView::dense(y_.data(), DType::kF32, {m, w.n})});
    }
  }
  [[nodiscard]] double bytes() const { return bytes_; }
  [[nodiscard]] double products(std::int64_t rows) const {
    double all = 0.0;
    for (std::size_t i = 0; i < weights_.size(); ++i) all += static_cast<double>(weights_[i].n * weights_[i].k) * static_cast<double>(i + 1 < weights_.size() ? rows : rows > 8 ? 1 : rows);
    return all;
  }

 private:
  void add(const Shape& s) {
    const std::int64_t step = ops::coded_layout(format_).super_inputs(), k = (s.k + step - 1) / step * step;
    auto& memory = memory_.emplace_back(ops::coded_bytes(format_, s.n, k), std::uint8_t{0x2c});  // a scale of 0.065
    bytes_ += static_cast<double>(memory.size());
    ops::Weight w{.format = format_, .n = s.n, .k = k, .input = ops::kInt8Input};
    w.coded[0] = {format_, memory.data()};
    weights_.push_back(w);
  }
  ops::WeightFormat format_;
  std::vector<std::vector<std::uint8_t>> memory_;
  std::vector<ops::Weight> weights_;
  double bytes_ = 0.0;
  std::vector<std::int8_t> x_ = std::vector<std::int8_t>(static_cast<std::size_t>(kMostRows * kMostInputs), 3);
  std::vector<float> floats_ = std::vector<float>(static_cast<std::size_t>(kMostRows * ops::kInt8Input.row_floats(kMostInputs)), 0.5f), y_ = std::vector<float>(static_cast<std::size_t>(std::max(kMostRows * kMostOutputs, 8 * kHead.n)));
};

double best_seconds(Model& model, device::Stream& stream, std::int64_t rows) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < (rows > 8 ? 3 : 12); ++i) {
    const auto before = Clock::now();
    model.run(stream, rows);
    if (i > 0) best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
  }
  return best;
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// One weight of 3072 x 768.
void print_one(device::Stream& stream, const ops::CodedLayout& layout) {
  constexpr std::int64_t kN = 3072, kK = 768;
  const std::vector<std::uint8_t> memory(ops::coded_bytes(layout.format, kN, kK), std::uint8_t{0x2c});
  ops::Weight w{.format = layout.format, .n = kN, .k = kK, .input = ops::kInt8Input};
  w.coded[0] = {layout.format, memory.data()};
  std::printf("%-5s", std::string(layout.name).c_str());
  for (const std::int64_t m : {1, 4, 8, 48, 192}) {
    std::vector<std::int8_t> x(static_cast<std::size_t>(m * kK), 3);
    std::vector<float> floats(static_cast<std::size_t>(m * ops::kInt8Input.row_floats(kK)), 0.5f), y(static_cast<std::size_t>(m * kN));
    double best = 1e9;
    for (int i = 0; i < 20; ++i) {
      const double before = processor_seconds();
      ops::linear(stream, {TensorView::dense(x.data(), DType::kU8, {m, kK}), ops::kInt8Input, floats.data(), 0}, w, {TensorView::dense(y.data(), DType::kF32, {m, kN})});
      best = std::min(best, processor_seconds() - before);
    }
    std::printf("  %7.1f", 1e-9 * static_cast<double>(m * kN * kK) / best);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = [&](const ops::CodedLayout& l) { return argc < 2 || l.name == std::string_view(argv[1]); };
  std::printf("%s%s\n3072 outputs, 768 inputs, one thread: 10^9 products in a second of processor time\nrows         1        4        8       48      192\n", ops::cpu_isa().c_str(),
              ops::cpu_has_byte_dots() ? ", dot products of bytes in one instruction" : "");
  device::CpuDevice alone(1, ops::cpu_kernels());
  const std::unique_ptr<device::Stream> alone_stream = alone.make_stream();
  for (const ops::CodedLayout& layout : ops::kCodedLayouts)
    if (wanted(layout)) print_one(*alone_stream, layout);
  std::printf("\nall linears of a step\ntype  threads  rows  ms of a step  tokens/s  GB/s  10^9 products/s\n");
  for (const ops::CodedLayout& layout : ops::kCodedLayouts) {
    if (!wanted(layout)) continue;
    Model model(layout.format);
    for (const int threads : {1, 2}) {
      device::CpuDevice device(threads, ops::cpu_kernels());
      const std::unique_ptr<device::Stream> stream = device.make_stream();
      for (const std::int64_t rows : {1, 8, 512}) {
        const double seconds = best_seconds(model, *stream, rows);
        std::printf("%-5s %7d %5lld %13.2f %9.0f %5.1f %8.1f\n", std::string(layout.name).c_str(), threads, static_cast<long long>(rows), seconds * 1e3, static_cast<double>(rows) / seconds,
                    model.bytes() / seconds * 1e-9, model.products(rows) / seconds * 1e-9);
      }
    }
  }
  return 0;
}
