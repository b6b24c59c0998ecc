// linear of coded weights: within the derived bound of the float64 twin, and for each output exactly the sums of docs/NUMERICS.md, in float32: the
// bits cannot depend on batch, threads, vector width or instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/coded_kit.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "reference/linear.h"

namespace quire {
namespace {

using gguf::TensorType;
using reference::Coded;
using reference::Matrix;
using reference::Quantised;
using test::CodedWeight;

struct Input {
  explicit Input(const Matrix& x, std::size_t misalign = 0) : plain(x, misalign), int8(x.rows, x.cols, misalign) {
    ops::quantise(test::op_stream(), plain.tensor(), int8.tensor());
    numbers = int8.numbers();
  }
  test::GuardedActs plain;
  test::Int8Acts int8;
  Quantised numbers;
};

// The definition, in float32.
float defined_output(const Quantised& x, std::int64_t m, const Coded& w) {
  float total = 0.0f;
  for (std::int64_t g = 0; g < w.scales.cols; ++g) {
    std::int64_t dot = 0, sum = 0;
    for (std::int64_t k = g * w.group; k < (g + 1) * w.group; ++k) {
      dot += static_cast<std::int64_t>(w.codes.at(0, k)) * static_cast<std::int64_t>(x.stored.at(m, k));
      sum += static_cast<std::int64_t>(x.stored.at(m, k));
    }
    const auto x_scale = static_cast<float>(x.scales.at(m, g * w.group / 32));
    const float by_x = static_cast<float>(dot) * x_scale, scaled = by_x * static_cast<float>(w.scales.at(0, g));
    total += scaled;
    const float sum_by_x = static_cast<float>(sum) * x_scale, shifted = sum_by_x * static_cast<float>(w.offsets.at(0, g));
    total += shifted;
  }
  return total;
}

void check(const CodedWeight& w, const Input& in, const std::vector<float>& got) {
  std::vector<double> values, want, bounds;
  std::vector<float> defined;
  const std::int64_t rows = in.numbers.stored.rows;
  std::vector<Matrix> columns, limits;
  for (std::int64_t n = 0; n < w.weight.n; ++n) {
    const std::vector<double> bias = w.bias.empty() ? std::vector<double>{} : std::vector<double>{static_cast<double>(w.bias[static_cast<std::size_t>(n)])};
    const Coded one = w.numbers(n);
    columns.push_back(reference::linear_coded(in.numbers, one, bias));
    limits.emplace_back(rows, 1, test::linear_coded_bounds(in.numbers, one, bias, {}));
    for (std::int64_t m = 0; m < rows; ++m) {
      const float y = defined_output(in.numbers, m, one);
      defined.push_back(bias.empty() ? y : y + w.bias[static_cast<std::size_t>(n)]);
    }
  }
  std::vector<float> got_by_output;
  for (std::int64_t n = 0; n < w.weight.n; ++n)
    for (std::int64_t m = 0; m < rows; ++m) {
      got_by_output.push_back(got[static_cast<std::size_t>(m * w.weight.n + n)]);
      want.push_back(columns[static_cast<std::size_t>(n)].at(m, 0));
      bounds.push_back(limits[static_cast<std::size_t>(n)].at(m, 0));
    }
  const auto bound = test::compare(test::widen(std::span<const float>(got_by_output)), want, bounds);
  ASSERT_TRUE(bound.equal) << bound.report;
  const auto bits = test::compare_bits(got_by_output, defined);
  ASSERT_TRUE(bits.equal) << bits.report;
}

class LinearCoded : public ::testing::TestWithParam<TensorType> {
 protected:
  [[nodiscard]] static std::int64_t step() { return gguf::facts_of(GetParam()).block_elements; }
};
INSTANTIATE_TEST_SUITE_P(Types, LinearCoded, ::testing::ValuesIn(test::kCodedTypes), [](const auto& p) { return std::string(gguf::facts_of(p.param).name); });

std::vector<float> run(const CodedWeight& w, Input& in, int threads = 1) {
  test::GuardedActs out(in.plain.rows, w.weight.n);
  ops::linear(test::op_stream(threads), in.int8.tensor(), w.weight, out.tensor());
  EXPECT_EQ(out.buffer.damage() + in.int8.damage(), "");
  return {out.floats().begin(), out.floats().end()};
}

TEST_P(LinearCoded, EveryShapeWithinItsBoundAndAsDefined) {
  auto rng = test::seeded_rng();
  const auto shape = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
    const CodedWeight w({{GetParam(), n}}, k, rng() % 2 == 0, rng);
    Input in(test::random_matrix(m, k, DType::kF32, 1.0, rng), 4 * (rng() % 16));
    check(w, in, run(w, in));
  };
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 47, 48, 49, 53}) shape(m, 70, step());
  for (const std::int64_t n : test::kOddSizes) shape(2, n, step());
  for (const std::int64_t blocks : {2, 3, 4, 5, 9}) shape(7, 66, blocks * step());
  shape(300, 3, step());
  shape(2, 65, 3072);
}

// Parts begin at any output and may differ in type.
TEST_P(LinearCoded, PartsOfAnyTypesAsDefined) {
  auto rng = test::seeded_rng();
  for (int i = 0; i < 12; ++i) {
    std::vector<CodedWeight::Part> parts{{GetParam(), static_cast<std::int64_t>(1 + rng() % 130)}};
    while (parts.size() < 1 + static_cast<std::size_t>(i) % 3) parts.push_back({test::kCodedTypes[rng() % std::size(test::kCodedTypes)], static_cast<std::int64_t>(1 + rng() % 130)});
    const CodedWeight w(parts, 256, i % 2 == 0, rng);
    Input in(test::random_matrix(1 + static_cast<std::int64_t>(rng() % 9), 256, DType::kF32, 1.0, rng));
    SCOPED_TRACE(std::to_string(w.weight.n) + " outputs in " + std::to_string(parts.size()) + " parts");
    check(w, in, run(w, in));
  }
}

// The largest sums there are: codes at either end of their range by inputs at either end of theirs.
TEST_P(LinearCoded, CodesAndInputsAtTheEndsOfTheirRanges) {
  auto rng = test::seeded_rng();
  for (const int fill : {0x00, 0xff, 0x7f, 0x80})
    for (const int signs : {0, 1, 2}) {
      const CodedWeight w({{GetParam(), 66}}, 512, false, rng, fill);
      Matrix x(3, 512);
      for (double& v : x.values) v = signs == 0 || (signs == 2 && rng() % 2 == 0) ? 1.0 : -1.0;
      Input in(x);
      for (const double v : in.numbers.stored.values) ASSERT_EQ(std::fabs(v), 127.0);
      SCOPED_TRACE("bytes of " + std::to_string(fill) + ", signs " + std::to_string(signs));
      check(w, in, run(w, in));
    }
}

// Beside the float32 inputs and the blocks as the reference reads them: off by no more than half a step of each input, and roundings.
TEST_P(LinearCoded, IsAsFarFromTheUnquantisedAnswerAsItsInputsAre) {
  auto rng = test::seeded_rng();
  const CodedWeight w({{GetParam(), 70}}, 512, true, rng);
  const Matrix x = test::random_matrix(9, 512, DType::kF32, 1.0, rng);
  Input in(x);
  const std::vector<float> got = run(w, in);
  const std::vector<double> bias(w.bias.begin(), w.bias.end());
  const Matrix want = reference::linear(x, w.values, bias);
  std::vector<double> bounds = test::int8_input_bounds(in.numbers, w.values);
  for (std::int64_t n = 0; n < w.weight.n; ++n) {
    const auto arithmetic = test::linear_coded_bounds(in.numbers, w.numbers(n), std::vector<double>{bias[static_cast<std::size_t>(n)]}, {});
    for (std::int64_t m = 0; m < 9; ++m) bounds[static_cast<std::size_t>(m * w.weight.n + n)] += arithmetic[static_cast<std::size_t>(m)];
  }
  const auto c = test::compare(test::widen(std::span<const float>(got)), want.values, bounds);
  EXPECT_TRUE(c.equal) << c.report;
}

TEST_P(LinearCoded, ARowAloneHasTheBitsItHasInAnyBatchOnAnyNumberOfThreads) {
  auto rng = test::seeded_rng();
  constexpr std::int64_t kM = 101, kN = 200, kK = 512;
  const CodedWeight w({{GetParam(), 100}, {TensorType::kQ4K, 30}, {TensorType::kQ6K, 70}}, kK, true, rng);
  const Matrix x = test::random_matrix(kM, kK, DType::kF32, 1.0, rng);
  std::vector<float> alone;
  for (std::int64_t r = 0; r < kM; ++r) {
    const auto row = x.row(r);
    Input one(Matrix(1, kK, {row.begin(), row.end()}));
    const std::vector<float> y = run(w, one);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  for (const int threads : {1, 2, 3})
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{6}, std::int64_t{8}, std::int64_t{48}, std::int64_t{64}, kM}) {
      Input in(Matrix(m, kK, {x.values.begin(), x.values.begin() + m * kK}));
      const auto c = test::compare_bits(run(w, in, threads), std::span(alone).first(static_cast<std::size_t>(m * kN)));
      EXPECT_TRUE(c.equal) << m << " rows, " << threads << " threads: " << c.report;
    }
}

TEST_P(LinearCoded, NanAndInfinityMakeTheirRowNanAndNoOther) {
  auto rng = test::seeded_rng();
  const CodedWeight w({{GetParam(), 70}}, 256, false, rng);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    Matrix x = test::random_matrix(9, 256, DType::kF32, 1.0, rng);
    x.at(4, 117) = bad;
    Input in(x);
    const std::vector<float> y = run(w, in);
    for (std::int64_t m = 0; m < 9; ++m)
      for (std::int64_t n = 0; n < 70; ++n) EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(m * 70 + n)]), m == 4) << m << ", " << n;
  }
}

// A graph holds no host state: what it reads is what lies in device memory when it is replayed.
TEST_P(LinearCoded, RecordedAndReplayedOnOtherInputs) {
  auto rng = test::seeded_rng();
  const CodedWeight w({{GetParam(), 90}}, 256, true, rng);
  Input in(test::random_matrix(5, 256, DType::kF32, 1.0, rng)), other(test::random_matrix(5, 256, DType::kF32, 1.0, rng));
  test::GuardedActs out(5, 90);
  device::Graph graph;
  device::Stream& stream = test::op_stream();
  stream.begin_record(graph);
  ops::quantise(stream, in.plain.tensor(), in.int8.tensor());
  ops::linear(stream, in.int8.tensor(), w.weight, out.tensor());
  stream.end_record();
  EXPECT_TRUE(std::isnan(out.floats()[0])) << "recording ran it";
  std::copy(other.plain.floats().begin(), other.plain.floats().end(), in.plain.floats().begin());
  stream.replay(graph);
  const auto c = test::compare_bits(out.floats(), run(w, other));
  EXPECT_TRUE(c.equal) << c.report;
}

TEST(LinearCodedDeath, AnotherInputAndRowsOfPartialBlocksEndTheProcess) {
  auto rng = test::seeded_rng();
  const CodedWeight w({{TensorType::kQ4_0, 70}}, 288, false, rng);
  Input in(test::random_matrix(2, 288, DType::kF32, 1.0, rng));
  test::GuardedActs y(2, 70);
  EXPECT_DEATH(ops::linear(test::op_stream(), in.plain.tensor(), w.weight, y.tensor()), "as the weight wants");
  ops::Weight other = w.weight;
  other.coded[0].format = ops::WeightFormat::kQ4K;
  EXPECT_DEATH(ops::linear(test::op_stream(), in.int8.tensor(), other, y.tensor()), "288 inputs of Q4_K");
  other = w.weight;
  other.coded[0].packed = nullptr;
  EXPECT_DEATH(ops::linear(test::op_stream(), in.int8.tensor(), other, y.tensor()), "part 0");
  other = w.weight;
  other.input = {};
  EXPECT_DEATH(ops::linear(test::op_stream(), in.plain.tensor(), other, y.tensor()), "multiplied with int8 activations");
}

}  // namespace
}  // namespace quire
