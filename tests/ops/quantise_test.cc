// Quantising activations: stored numbers and scales are the reference's to the bit, whatever the width, batch or threads; the fused operations
// store what the plain ones would.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/fp8_kit.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "reference/fp8.h"

namespace quire {
namespace {

using ops::ActFormat;
using ops::ActScaling;
using ops::InputQuant;
using reference::Matrix;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

std::vector<InputQuant> quants() {
  std::vector<InputQuant> out;
  for (const ActFormat f : {ActFormat::kFp8E4m3, ActFormat::kFp8E4m3Fnuz}) {
    out.push_back({f, ActScaling::kStatic, 1, {0.37f}});
    out.push_back({f, ActScaling::kStatic, 3, {0.01f, 1.0f, 0.0123f}});
    out.push_back({f, ActScaling::kPerToken, 0, {}});
    out.push_back({f, ActScaling::kPerGroup, 0, {}});
  }
  return out;
}
class Quantise : public ::testing::TestWithParam<InputQuant> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Quantise, ::testing::ValuesIn(quants()), [](const auto& p) {
  return std::string(dtype_name(ops::storage_dtype(p.param.format))) + "_" + test::scaling_name(p.param.scaling) + (p.param.num_scales > 1 ? "_for_each_part" : "");
});

void expect_numbers(test::QuantisedActs& got, const Matrix& x) {
  const auto want = test::reference_quantised(x, got.quant), have = got.numbers();
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t copy = 0; copy < want.size(); ++copy) {
    const auto scales = test::compare(have[copy].scales.values, want[copy].scales.values, 0.0);
    ASSERT_TRUE(scales.equal) << "scales of copy " << copy << ": " << scales.report;
    const auto stored = test::compare(have[copy].stored.values, want[copy].stored.values, 0.0);
    ASSERT_TRUE(stored.equal) << "copy " << copy << ": " << stored.report;
  }
  EXPECT_EQ(got.damage(), "");
}

TEST_P(Quantise, EveryWidthAndAlignmentGivesTheReferencesNumbers) {
  auto rng = test::seeded_rng();
  std::vector<std::int64_t> widths(std::begin(test::kOddSizes), std::end(test::kOddSizes));
  for (const std::int64_t n : {383, 384, 576, 1000}) widths.push_back(n);
  for (const std::int64_t n : widths)
    for (const double size : {1e-7, 1.0, 300.0}) {
      SCOPED_TRACE(std::to_string(n) + " columns of " + std::to_string(size));
      Matrix m = test::random_matrix(4, n, DType::kF32, size, rng);
      std::fill(m.row(2).begin(), m.row(2).end(), 0.0);
      test::GuardedActs x(m, 4 * (rng() % 16));
      test::QuantisedActs y(4, n, GetParam(), rng() % 16);
      ops::quantise(test::op_stream(), x.tensor(), y.tensor());
      expect_numbers(y, m);
    }
}

TEST_P(Quantise, NanAndInfinityHaveNoNeighbours) {
  auto rng = test::seeded_rng();
  Matrix m = test::random_matrix(6, 300, DType::kF32, 1.0, rng);
  m.at(1, 5) = static_cast<double>(kNan);
  m.at(2, 299) = static_cast<double>(kNan);
  m.at(3, 130) = static_cast<double>(kInf);
  m.at(4, 298) = -static_cast<double>(kInf);
  test::GuardedActs x(m);
  test::QuantisedActs y(6, 300, GetParam());
  ops::quantise(test::op_stream(), x.tensor(), y.tensor());
  expect_numbers(y, m);
  const auto numbers = y.numbers()[0];
  EXPECT_TRUE(std::isnan(numbers.stored.at(1, 5)) && std::isnan(numbers.stored.at(2, 299)));
  EXPECT_FALSE(std::isnan(numbers.stored.at(1, 6)));
  // A static scale saturates infinity; a computed one is infinite, and infinity over itself is NaN.
  EXPECT_EQ(std::isnan(numbers.stored.at(3, 130)), GetParam().scaling != ActScaling::kStatic);
}

TEST_P(Quantise, RowsAreTheirOwnWhateverTheBatchAndThreads) {
  auto rng = test::seeded_rng();
  const Matrix m = test::random_matrix(101, 257, DType::kF32, 1.0, rng);
  test::GuardedActs x(m);
  for (const int threads : {1, 3})
    for (const std::int64_t rows : {1, 7, 101}) {
      test::QuantisedActs y(rows, 257, GetParam());
      ops::quantise(test::op_stream(threads), x.tensor().first_rows(rows), y.tensor());
      expect_numbers(y, Matrix(rows, 257, {m.values.begin(), m.values.begin() + rows * 257}));
    }
}

// rms_norm, add_rms_norm and silu_mul: float32 as ever, and beside it what quantise() makes of that.
TEST_P(Quantise, FusedFormsStoreWhatThePlainOnesWould) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : {1, 33, 128, 129, 576}) {
    const Matrix a = test::random_matrix(5, n, DType::kF32, 1.0, rng), b = test::random_matrix(5, n, DType::kF32, 1.0, rng);
    test::GuardedActs x(a), residual(b), same_residual(b), weight(test::random_matrix(1, n, DType::kF32, 1.0, rng)), gate_up(test::random_matrix(5, 2 * n, DType::kF32, 2.0, rng));
    const auto both = [&](const char* name, auto run) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(n) + " columns");
      test::GuardedActs alone(5, n), y(5, n);
      test::QuantisedActs fused(5, n, GetParam()), plain(5, n, GetParam());
      run(alone.tensor(), ops::ActTensor{}, same_residual.tensor());
      run(y.tensor(), fused.tensor(), residual.tensor());
      EXPECT_TRUE(test::compare_bits(y.floats(), alone.floats()).equal);
      ops::quantise(test::op_stream(), y.tensor(), plain.tensor());
      EXPECT_EQ(fused.damage(), "");
      for (std::size_t copy = 0; copy < fused.numbers().size(); ++copy) {
        EXPECT_TRUE(test::compare(fused.numbers()[copy].stored.values, plain.numbers()[copy].stored.values, 0.0).equal);
        EXPECT_TRUE(test::compare(fused.numbers()[copy].scales.values, plain.numbers()[copy].scales.values, 0.0).equal);
      }
    };
    const auto& s = test::op_stream;
    both("rms_norm", [&](const ops::ActTensor& y, const ops::ActTensor& q, const ops::ActTensor&) { ops::rms_norm(s(1), x.tensor(), {.weight = weight.floats().data(), .eps = 1e-5f}, y, q); });
    both("add_rms_norm", [&](const ops::ActTensor& y, const ops::ActTensor& q, const ops::ActTensor& r) { ops::add_rms_norm(s(1), x.tensor(), {.residual = r, .weight = weight.floats().data(), .eps = 1e-5f}, y, q); });
    both("gelu_tanh_mul", [&](const ops::ActTensor& y, const ops::ActTensor& q, const ops::ActTensor&) { ops::gelu_tanh_mul(s(1), gate_up.tensor(), y, q); });
    both("silu_mul", [&](const ops::ActTensor& y, const ops::ActTensor& q, const ops::ActTensor&) { ops::silu_mul(s(1), gate_up.tensor(), y, q); });
  }
}

// Every 16-bit number, its neighbours in float32, and random patterns, through vectors and through the tail.
TEST(QuantiseRounding, IsTheReferencesForEveryNumber) {
  auto rng = test::seeded_rng();
  std::vector<float> inputs;
  for (std::uint32_t i = 0; i < 65536; ++i)
    for (const float v : {to_float(Float16{static_cast<std::uint16_t>(i)}), to_float(BFloat16{static_cast<std::uint16_t>(i)})})
      for (const float neighbour : {v, std::nextafter(v, kInf), std::nextafter(v, -kInf)}) inputs.push_back(neighbour);
  for (int i = 0; i < 100'000; ++i) inputs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
  const auto n = static_cast<std::int64_t>(inputs.size());
  for (const ActFormat format : {ActFormat::kFp8E4m3, ActFormat::kFp8E4m3Fnuz}) {
    const DType dtype = ops::storage_dtype(format);
    test::GuardedActs x(n, 1);
    std::copy(inputs.begin(), inputs.end(), x.floats().begin());
    const InputQuant quant{format, ActScaling::kStatic, 1, {1.0f}};
    test::QuantisedActs narrow(n, 1, quant), wide(1, n, quant);  // a tail for each; vectors
    ops::quantise(test::op_stream(), x.tensor(), narrow.tensor());
    ops::quantise(test::op_stream(), ops::ActTensor{TensorView::dense(x.floats().data(), DType::kF32, {1, n})}, wide.tensor());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto got = std::to_integer<std::uint8_t>(narrow.buffer.bytes()[i]), vector = std::to_integer<std::uint8_t>(wide.buffer.bytes()[i]);
      ASSERT_EQ(got, vector) << inputs[i];
      const std::uint8_t want = reference::fp8_encode(dtype, static_cast<double>(inputs[i]));
      const bool nan = std::isnan(inputs[i]);
      ASSERT_EQ(nan && format == ActFormat::kFp8E4m3 ? got & 0x7f : got, want) << dtype_name(dtype) << " of " << inputs[i];
    }
  }
}

TEST(QuantiseDeath, ScalesWhereNoneBelongAndShapesThatDiffer) {
  test::GuardedActs x(2, 8);
  test::QuantisedActs token(2, 8, {ActFormat::kFp8E4m3, ActScaling::kPerToken, 0, {}}), fixed(2, 8, {ActFormat::kFp8E4m3, ActScaling::kStatic, 1, {1.0f}}), narrow(2, 7, token.quant);
  ops::ActTensor t = token.tensor();
  t.scales = nullptr;
  EXPECT_DEATH(ops::quantise(test::op_stream(), x.tensor(), t), "scales are computed");
  t = fixed.tensor();
  t.scales = x.floats().data();
  EXPECT_DEATH(ops::quantise(test::op_stream(), x.tensor(), t), "scales are computed");
  EXPECT_DEATH(ops::quantise(test::op_stream(), x.tensor(), narrow.tensor()), "");
  t = token.tensor();
  t.quant = {};
  EXPECT_DEATH(ops::quantise(test::op_stream(), x.tensor(), t), "quantised");
}

}  // namespace
}  // namespace quire
