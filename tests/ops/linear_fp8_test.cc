// linear of FP8 weights: every product exact, sums within the derived bound of the float64 twin, and exactly the chain of docs/NUMERICS.md for
// each output: the bits cannot depend on batch, threads, vector width or (with FP8 inputs) instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/cpu_kernels.h"
#include "ops/fp8_kit.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "reference/rounding.h"

namespace quire {
namespace {

using ops::ActScaling;
using ops::WeightFormat;
using reference::Matrix;
using reference::Quantised;

// An input of a weight, as the weight wants it, and as numbers for each copy.
struct Input {
  Input(const Matrix& x, const ops::Weight& w, std::size_t misalign = 0) : plain(x, misalign), quantised(x.rows, x.cols, w.input.quantised() ? w.input : stand_in(), misalign), fp8(w.input.quantised()) {
    if (!fp8) {
      numbers.push_back({x, Matrix(x.rows, 1, std::vector<double>(static_cast<std::size_t>(x.rows), 1.0))});
      return;
    }
    ops::quantise(test::op_stream(), plain.tensor(), quantised.tensor());
    numbers = quantised.numbers();
  }
  static ops::InputQuant stand_in() { return {ops::ActFormat::kFp8E4m3, ActScaling::kPerToken, 0, {}}; }
  [[nodiscard]] ops::ActTensor tensor() { return fp8 ? quantised.tensor() : plain.tensor(); }
  // What an output's part reads.
  [[nodiscard]] const Quantised& of_output(const ops::Weight& w, std::int64_t n) const {
    int part = 0;
    while (n >= w.end_row(part)) ++part;
    return numbers[static_cast<std::size_t>(w.input.copy_of(part))];
  }
  test::GuardedActs plain;
  test::QuantisedActs quantised;
  bool fp8;
  std::vector<Quantised> numbers;
};

Quantised row_of(const Quantised& q, std::int64_t r) {
  const auto stored = q.stored.row(r), scales = q.scales.row(r);
  return {Matrix(1, q.stored.cols, {stored.begin(), stored.end()}), Matrix(1, q.scales.cols, {scales.begin(), scales.end()})};
}

// The definition, in float32.
float defined_output(const Quantised& x, std::int64_t m, const Quantised& w, std::int64_t n, std::int64_t group, bool fused) {
  float total = 0.0f;
  for (std::int64_t k = 0, g = 0; k < x.stored.cols; ++g) {
    float sum = 0.0f;
    for (const std::int64_t end = std::min(x.stored.cols, k + group); k < end; ++k) {
      const auto a = static_cast<float>(x.stored.at(m, k)), b = static_cast<float>(w.stored.at(n, k));
      if (fused) {
        sum = std::fma(a, b, sum);
      } else {
        const float product = a * b;
        sum += product;
      }
    }
    const float scaled = sum * static_cast<float>(x.scales.at(m, x.scales.cols == 1 ? 0 : g)) * static_cast<float>(w.scales.at(n, w.scales.cols == 1 ? 0 : g));
    total += scaled;
  }
  return total;
}

std::int64_t group_of(const ops::Weight& w) { return w.scale_group != w.k || w.input.row_scales(w.k) > 1 ? 128 : w.k; }

void check(const test::Fp8Weight& w, Input& in, const std::vector<float>& got) {
  const ops::Weight& weight = w.weight;
  const bool fused = ops::cpu_isa().starts_with("AVX");
  const std::int64_t group = group_of(weight);
  std::vector<double> values, want, bounds;
  std::vector<float> defined;
  for (std::int64_t m = 0; m < in.plain.rows; ++m)
    for (std::int64_t n = 0; n < weight.n; ++n) {
      const Quantised& x = in.of_output(weight, n);
      const Quantised one_x = row_of(x, m), one_w = row_of(w.numbers, n);
      const std::vector<double> bias = w.bias.empty() ? std::vector<double>{} : std::vector<double>{static_cast<double>(w.bias[static_cast<std::size_t>(n)])};
      want.push_back(reference::linear_scaled(one_x, one_w, group, bias).values[0]);
      bounds.push_back(test::linear_scaled_bounds(one_x, one_w, group, bias, {})[0]);
      const float y = defined_output(x, m, w.numbers, n, group, fused);
      defined.push_back(w.bias.empty() ? y : y + w.bias[static_cast<std::size_t>(n)]);
    }
  const auto bound = test::compare(test::widen(std::span<const float>(got)), want, bounds);
  ASSERT_TRUE(bound.equal) << bound.report;
  const auto bits = test::compare_bits(got, defined);
  ASSERT_TRUE(bits.equal) << bits.report;
}

struct Kind {
  WeightFormat format;
  ActScaling scaling;
};
class LinearFp8 : public ::testing::TestWithParam<Kind> {};
std::vector<Kind> kinds() {
  std::vector<Kind> out;
  for (const WeightFormat f : test::kFp8Weights)
    for (const ActScaling s : {ActScaling::kNone, ActScaling::kStatic, ActScaling::kPerToken, ActScaling::kPerGroup}) out.push_back({f, s});
  return out;
}
INSTANTIATE_TEST_SUITE_P(Kinds, LinearFp8, ::testing::ValuesIn(kinds()),
                         [](const auto& p) { return std::string(dtype_name(ops::storage_dtype(p.param.format))) + "_" + test::scaling_name(p.param.scaling); });

void check_shape(const Kind& kind, const test::Fp8Shape& s, bool with_bias, std::mt19937_64& rng) {
  SCOPED_TRACE(std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) + ", scales of " + std::to_string(s.scale_group) + ", parts " + std::to_string(s.num_parts) + ", input scales " +
               std::to_string(s.num_scales));
  const test::Fp8Weight w(kind.format, kind.scaling, s, with_bias, rng);
  Input in(test::random_matrix(s.m, s.k, DType::kF32, 1.0, rng), w.weight, 4 * (rng() % 16));
  test::GuardedActs out(s.m, s.n, 4 * (rng() % 16));
  ops::linear(test::op_stream(), in.tensor(), w.weight, out.tensor());
  EXPECT_EQ(out.buffer.damage(), "");
  check(w, in, {out.floats().begin(), out.floats().end()});
}

TEST_P(LinearFp8, EveryShapeWithinItsBoundAndAsDefined) {
  auto rng = test::seeded_rng();
  constexpr std::int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 47, 48, 49, 53};
  for (const std::int64_t m : kRows) check_shape(GetParam(), {m, 70, 33, 0}, m % 2 == 0, rng);
  for (const std::int64_t n : test::kOddSizes) check_shape(GetParam(), {3, n, 21, n % 3 == 0 ? 128 : 0}, n % 2 == 0, rng);
  for (const std::int64_t k : test::kOddSizes) check_shape(GetParam(), {7, 66, k, k % 2 == 0 ? 128 : 0}, k % 2 == 0, rng);
  for (int i = 0; i < 25; ++i) {
    test::Fp8Shape s{kRows[rng() % 15], test::kOddSizes[rng() % 27], static_cast<std::int64_t>(1 + rng() % 400), rng() % 2 == 0 ? 128 : 0};
    s.num_parts = static_cast<int>(1 + rng() % static_cast<std::uint64_t>(std::min<std::int64_t>(3, s.n)));
    s.num_scales = rng() % 2 == 0 ? 1 : s.num_parts;
    check_shape(GetParam(), s, rng() % 2 == 0, rng);
  }
  check_shape(GetParam(), {2, 65, 2999, 128}, true, rng);
  check_shape(GetParam(), {7, 5, 3000, 0}, false, rng);
}

TEST_P(LinearFp8, ARowAloneHasTheBitsItHasInAnyBatchOnAnyNumberOfThreads) {
  auto rng = test::seeded_rng();
  constexpr std::int64_t kM = 101, kN = 200, kK = 300;
  const test::Fp8Weight w(GetParam().format, GetParam().scaling, {kM, kN, kK, 128, 3, 3}, true, rng);
  const Matrix x = test::random_matrix(kM, kK, DType::kF32, 1.0, rng);
  test::GuardedActs alone(kM, kN);
  for (std::int64_t r = 0; r < kM; ++r) {
    const auto row = x.row(r);
    Input one(Matrix(1, kK, {row.begin(), row.end()}), w.weight);
    ops::ActTensor y = alone.tensor().first_rows(1);
    y.values.data = alone.row(r).data();
    ops::linear(test::op_stream(), one.tensor(), w.weight, y);
  }
  for (const int threads : {1, 2, 3})
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{6}, std::int64_t{48}, std::int64_t{64}, kM}) {
      Input in(Matrix(m, kK, {x.values.begin(), x.values.begin() + m * kK}), w.weight);
      test::GuardedActs out(m, kN);
      ops::linear(test::op_stream(threads), in.tensor(), w.weight, out.tensor());
      const auto c = test::compare_bits(out.floats(), alone.floats().first(static_cast<std::size_t>(m * kN)));
      EXPECT_TRUE(c.equal) << m << " rows, " << threads << " threads: " << c.report;
    }
}

TEST_P(LinearFp8, ANanStaysInItsRow) {
  auto rng = test::seeded_rng();
  const test::Fp8Weight w(GetParam().format, GetParam().scaling, {9, 70, 200, 128, 2, 2}, false, rng);
  Matrix x = test::random_matrix(9, 200, DType::kF32, 1.0, rng);
  x.at(4, 17) = std::numeric_limits<double>::quiet_NaN();
  Input in(x, w.weight);
  test::GuardedActs out(9, 70);
  ops::linear(test::op_stream(), in.tensor(), w.weight, out.tensor());
  for (std::int64_t m = 0; m < 9; ++m)
    for (const float y : out.row(m)) EXPECT_EQ(std::isnan(y), m == 4) << m;
}

// A graph holds no host state: what it reads is what lies in device memory when it is replayed.
TEST_P(LinearFp8, RecordedAndReplayedOnOtherInputs) {
  auto rng = test::seeded_rng();
  const test::Fp8Weight w(GetParam().format, GetParam().scaling, {5, 90, 150, 128, 3, 3}, true, rng);
  const Matrix first = test::random_matrix(5, 150, DType::kF32, 1.0, rng), second = test::random_matrix(5, 150, DType::kF32, 1.0, rng);
  Input in(first, w.weight), want(second, w.weight);
  test::GuardedActs out(5, 90), expected(5, 90);
  device::Graph graph;
  device::Stream& stream = test::op_stream();
  stream.begin_record(graph);
  if (in.fp8) ops::quantise(stream, in.plain.tensor(), in.tensor());
  ops::linear(stream, in.tensor(), w.weight, out.tensor());
  stream.end_record();
  EXPECT_TRUE(std::isnan(out.floats()[0])) << "recording ran it";
  std::copy(want.plain.floats().begin(), want.plain.floats().end(), in.plain.floats().begin());
  stream.replay(graph);
  ops::linear(stream, want.tensor(), w.weight, expected.tensor());
  const auto c = test::compare_bits(out.floats(), expected.floats());
  EXPECT_TRUE(c.equal) << c.report;
}

// All products of two numbers: x times w, exactly.
TEST(LinearFp8Products, EveryPairOfNumbersIsExact) {
  for (const WeightFormat format : test::kFp8Weights) {
    const DType dtype = ops::storage_dtype(format);
    std::vector<std::uint8_t> patterns(256);
    for (std::size_t i = 0; i < 256; ++i) patterns[i] = std::isnan(reference::decode(dtype, static_cast<std::uint32_t>(i))) ? 0 : static_cast<std::uint8_t>(i);
    const std::vector<float> ones(256, 1.0f);
    const ops::InputQuant input{test::input_format_of(format), ActScaling::kStatic, 1, {1.0f}};
    const ops::Weight w{.format = format, .n = 256, .k = 1, .packed = patterns.data(), .scales = ones.data(), .scale_group = 1, .input = input};
    test::GuardedActs y(256, 256);
    const ops::ActTensor x{TensorView::dense(patterns.data(), dtype, {256, 1}), input};
    ops::linear(test::op_stream(), x, w, y.tensor());
    for (std::size_t a = 0; a < 256; ++a)
      for (std::size_t b = 0; b < 256; ++b)
        ASSERT_EQ(static_cast<double>(y.floats()[a * 256 + b]), reference::decode(dtype, patterns[a]) * reference::decode(dtype, patterns[b])) << dtype_name(dtype) << " " << a << " " << b;
  }
}

TEST(LinearFp8Death, AnInputOrScalesOtherThanTheWeightsEndTheProcess) {
  auto rng = test::seeded_rng();
  const test::Fp8Weight w(WeightFormat::kFp8E4m3, ActScaling::kStatic, {2, 70, 40, 0}, false, rng);
  test::GuardedActs plain(2, 40), y(2, 70);
  EXPECT_DEATH(ops::linear(test::op_stream(), plain.tensor(), w.weight, y.tensor()), "as the weight wants");
  test::QuantisedActs x(2, 40, w.weight.input);
  ops::Weight other = w.weight;
  other.input.scales[0] *= 2.0f;
  EXPECT_DEATH(ops::linear(test::op_stream(), x.tensor(), other, y.tensor()), "as the weight wants");
  other = w.weight;
  other.scales = nullptr;
  EXPECT_DEATH(ops::linear(test::op_stream(), x.tensor(), other, y.tensor()), "have scales");
  other = w.weight;
  other.scale_group = 32;
  EXPECT_DEATH(ops::linear(test::op_stream(), x.tensor(), other, y.tensor()), "scales of 32 inputs");
  other = w.weight;
  other.input.format = ops::ActFormat::kFp8E4m3Fnuz;
  EXPECT_DEATH(ops::linear(test::op_stream(), x.tensor(), other, y.tensor()), "share one FP8 encoding");
}

}  // namespace
}  // namespace quire
