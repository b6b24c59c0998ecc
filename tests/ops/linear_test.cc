// linear: within the derived bound of the float64 twin, and exactly one chain of multiply-adds over k for each output. The second pins the
// bits: they cannot depend on batch, threads or vector width (AVX2 and AVX-512 have fused multiply-adds, those before have not).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/cpu_kernels.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "ops/pack.h"
#include "reference/linear.h"

namespace quire {
namespace {

using reference::Matrix;

struct Packed {
  Packed(const Matrix& w, DType dtype, const std::vector<float>& b)
      : memory(dtype, ops::Weight::packed_bytes(test::format_of(dtype), w.rows, w.cols) / dtype_bytes(dtype)), bias(b) {
    const auto bytes = test::raw_bytes(w, dtype);
    const Status s = ops::pack_rows({"w", dtype, bytes, w.rows, w.cols}, test::format_of(dtype), 0, memory.bytes().data());
    QUIRE_CHECK(s.ok());
    weight = ops::Weight{test::format_of(dtype), w.rows, w.cols, memory.bytes().data(), bias.empty() ? nullptr : bias.data()};
  }
  test::GuardedBuffer memory;  // lanes past the last output stay NaN: they must reach nothing
  std::vector<float> bias;
  ops::Weight weight;
};

float chain(std::span<const double> x, std::span<const double> w, bool fused) {
  float sum = 0.0f;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto a = static_cast<float>(x[k]), b = static_cast<float>(w[k]);
    if (fused) {
      sum = std::fma(a, b, sum);
    } else {
      const float product = a * b;
      sum += product;
    }
  }
  return sum;
}

std::vector<float> chains(const Matrix& x, const Matrix& w, const std::vector<float>& bias) {
  const bool fused = ops::cpu_isa().starts_with("AVX");
  std::vector<float> out;
  for (std::int64_t m = 0; m < x.rows; ++m)
    for (std::int64_t n = 0; n < w.rows; ++n) {
      const float y = chain(x.row(m), w.row(n), fused);
      out.push_back(bias.empty() ? y : y + bias[static_cast<std::size_t>(n)]);
    }
  return out;
}

std::vector<float> random_bias(std::int64_t n, std::mt19937_64& rng) {
  std::vector<float> b(static_cast<std::size_t>(n));
  for (float& v : b) v = static_cast<float>(static_cast<double>(rng() % 2000) / 500.0 - 2.0);
  return b;
}

class Linear : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Storage, Linear, ::testing::ValuesIn(test::kStorageTypes), [](const auto& p) { return std::string(dtype_name(p.param)); });

void check_shape(std::int64_t m, std::int64_t n, std::int64_t k, bool with_bias, DType dtype, std::mt19937_64& rng) {
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + (with_bias ? " with bias" : ""));
  const Matrix x = test::random_matrix(m, k, DType::kF32, 1.0, rng), w = test::random_matrix(n, k, dtype, 0.3, rng);
  const std::vector<float> bias = with_bias ? random_bias(n, rng) : std::vector<float>{};
  const Packed packed(w, dtype, bias);
  test::GuardedActs in(x, 4 * (rng() % 16)), out(m, n, 4 * (rng() % 16));
  ops::linear(test::op_stream(), in.tensor(), packed.weight, out.tensor());
  EXPECT_EQ(out.buffer.damage(), "");
  const std::vector<double> wide_bias = test::widen(std::span<const float>(bias));
  const auto bound = test::compare(out.buffer.values(), reference::linear(x, w, wide_bias).values, test::linear_bounds(x, w, wide_bias, {}));
  ASSERT_TRUE(bound.equal) << bound.report;
  const auto bits = test::compare_bits(out.floats(), chains(x, w, bias));
  ASSERT_TRUE(bits.equal) << bits.report;
}

TEST_P(Linear, EveryShapeWithinItsBoundAndOneChainPerOutput) {
  auto rng = test::seeded_rng();
  constexpr std::int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 47, 48, 49, 53, 97};
  for (const std::int64_t m : kRows) check_shape(m, 70, 33, m % 2 == 0, GetParam(), rng);
  for (const std::int64_t n : test::kOddSizes) check_shape(3, n, 21, n % 2 == 0, GetParam(), rng);
  for (const std::int64_t k : test::kOddSizes) check_shape(7, 66, k, k % 2 == 0, GetParam(), rng);
  for (int i = 0; i < 30; ++i)
    check_shape(kRows[rng() % 18], test::kOddSizes[rng() % 27], test::kOddSizes[rng() % 27], rng() % 2 == 0, GetParam(), rng);
  check_shape(2, 65, 3000, true, GetParam(), rng);
  check_shape(7, 5, 2999, false, GetParam(), rng);
}

TEST_P(Linear, ARowAloneHasTheBitsItHasInAnyBatchOnAnyNumberOfThreads) {
  auto rng = test::seeded_rng();
  constexpr std::int64_t kM = 101, kN = 200, kK = 300;
  const Matrix x = test::random_matrix(kM, kK, DType::kF32, 1.0, rng), w = test::random_matrix(kN, kK, GetParam(), 0.3, rng);
  const Packed packed(w, GetParam(), random_bias(kN, rng));
  test::GuardedActs in(x), alone(kM, kN);
  for (std::int64_t r = 0; r < kM; ++r) {
    ops::ActTensor x1 = in.tensor().first_rows(1), y1 = alone.tensor().first_rows(1);
    x1.values.data = in.row(r).data();
    y1.values.data = alone.row(r).data();
    ops::linear(test::op_stream(), x1, packed.weight, y1);
  }
  for (const int threads : {1, 2, 3, 5})
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{2}, std::int64_t{6}, std::int64_t{48}, std::int64_t{64}, kM}) {
      test::GuardedActs out(m, kN);
      ops::linear(test::op_stream(threads), in.tensor().first_rows(m), packed.weight, out.tensor());
      const auto c = test::compare_bits(out.floats(), alone.floats().first(static_cast<std::size_t>(m * kN)));
      EXPECT_TRUE(c.equal) << m << " rows, " << threads << " threads: " << c.report;
      EXPECT_EQ(out.buffer.damage(), "");
    }
}

TEST_P(Linear, ANanOrInfinityStaysInItsRowAndItsOutput) {
  auto rng = test::seeded_rng();
  Matrix x = test::random_matrix(9, 40, DType::kF32, 1.0, rng), w = test::random_matrix(70, 40, GetParam(), 0.3, rng);
  x.at(4, 17) = std::numeric_limits<double>::quiet_NaN();
  w.at(66, 3) = std::numeric_limits<double>::infinity();
  const Packed packed(w, GetParam(), {});
  test::GuardedActs in(x), out(9, 70);
  ops::linear(test::op_stream(), in.tensor(), packed.weight, out.tensor());
  for (std::int64_t m = 0; m < 9; ++m)
    for (std::int64_t n = 0; n < 70; ++n) EXPECT_EQ(std::isfinite(out.row(m)[static_cast<std::size_t>(n)]), m != 4 && n != 66) << m << ", " << n;
}

TEST(LinearDeath, WrongShapesEndTheProcess) {
  test::GuardedActs x(2, 8), y(2, 5), short_x(2, 7), short_y(1, 5);
  const ops::Weight w{ops::WeightFormat::kF32, 5, 8, nullptr, nullptr};
  EXPECT_DEATH(ops::linear(test::op_stream(), short_x.tensor(), w, y.tensor()), "");
  EXPECT_DEATH(ops::linear(test::op_stream(), x.tensor(), w, short_y.tensor()), "");
  ops::ActTensor strided = x.tensor();
  strided.values.stride[0] = 9;
  EXPECT_DEATH(ops::linear(test::op_stream(), strided, w, y.tensor()), "");
}

TEST(CpuIsa, AnUnknownOneIsRefusedWithThoseThatThereAre) {
  const std::string now = ops::cpu_isa();
  const Status s = ops::limit_cpu_isa("AVX9");
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message.find(now), std::string::npos) << s.error().message;
  EXPECT_EQ(s.error().param, "QUIRE_CPU_ISA");
  EXPECT_EQ(ops::cpu_isa(), now);
}

// Every half and bfloat16 pattern through the kernel's own conversion (x = 1, k = 1): what base/dtype.h says, NaN as NaN.
TEST(LinearStorage, ConvertsEverySixteenBitPatternExactly) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<std::uint16_t> packed(65536);
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::uint16_t>(i);
    test::GuardedActs x(1, 1), y(1, 65536);
    x.floats()[0] = 1.0f;
    ops::linear(test::op_stream(), x.tensor(), {test::format_of(dtype), 65536, 1, packed.data(), nullptr}, y.tensor());
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const float want = dtype == DType::kF16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
      const float got = y.floats()[i];
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << i;
      } else {
        ASSERT_EQ(got, want) << dtype_name(dtype) << " pattern " << i;
      }
    }
  }
}

}  // namespace
}  // namespace quire
