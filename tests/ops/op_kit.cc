#include "ops/op_kit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "kit/compare.h"
#include "ops/cpu_kernels.h"
#include "reference/rounding.h"

namespace quire::test {
namespace {

class LimitIsa : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* wanted = std::getenv("QUIRE_TEST_ISA");
    if (wanted == nullptr) return;
    const Status limited = ops::limit_cpu_isa(wanted);
    if (!limited.ok()) GTEST_SKIP() << limited.error().message;
    ASSERT_EQ(ops::cpu_isa(), wanted);
  }
};
const ::testing::Environment* const kLimitIsa = ::testing::AddGlobalTestEnvironment(new LimitIsa);

struct Machine {
  explicit Machine(int threads) : device(threads, ops::cpu_kernels()), stream(device.make_stream()) {}
  device::CpuDevice device;
  std::unique_ptr<device::Stream> stream;
};

}  // namespace

device::Stream& op_stream(int threads) {
  static std::map<int, std::unique_ptr<Machine>> machines;
  auto& m = machines[threads];
  if (m == nullptr) m = std::make_unique<Machine>(threads);
  return *m->stream;
}

GuardedActs::GuardedActs(std::int64_t r, std::int64_t c, std::size_t misalign) : rows(r), columns(c), buffer(DType::kF32, static_cast<std::size_t>(r * c), misalign) {}

GuardedActs::GuardedActs(const reference::Matrix& m, std::size_t misalign) : GuardedActs(m.rows, m.cols, misalign) {
  const auto values = narrow_exactly(m.values);
  std::copy(values.begin(), values.end(), floats().begin());
}

reference::Matrix random_matrix(std::int64_t rows, std::int64_t columns, DType dtype, double size, std::mt19937_64& rng) {
  std::normal_distribution<double> normal(0.0, size);
  reference::Matrix m(rows, columns);
  for (double& v : m.values) v = rng() % 16 == 0 ? 0.0 : reference::round_to(dtype, normal(rng));
  return m;
}

std::vector<std::byte> raw_bytes(const reference::Matrix& m, DType dtype) {
  std::vector<std::byte> out;
  for (const double v : m.values) {
    const std::uint32_t bits = reference::encode(dtype, v);
    for (std::size_t i = 0; i < dtype_bytes(dtype); ++i) out.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xffu));
  }
  return out;
}

ops::WeightFormat format_of(DType dtype) {
  return dtype == DType::kF32 ? ops::WeightFormat::kF32 : dtype == DType::kF16 ? ops::WeightFormat::kF16 : ops::WeightFormat::kBF16;
}

}  // namespace quire::test
