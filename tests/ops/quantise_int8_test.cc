// int8 activations: stored numbers, scales and sums are the reference's to the bit, whatever the width, batch or threads; the fused operations store
// what the plain one would.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/coded_kit.h"
#include "ops/op_kit.h"
#include "ops/ops.h"

namespace quire {
namespace {

using reference::Matrix;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

void expect_numbers(test::Int8Acts& got, const Matrix& x) {
  const reference::Quantised want = reference::quantise_int8(x, 32), have = got.numbers();
  const auto scales = test::compare(have.scales.values, want.scales.values, 0.0);
  ASSERT_TRUE(scales.equal) << scales.report;
  const auto stored = test::compare(have.stored.values, want.stored.values, 0.0);
  ASSERT_TRUE(stored.equal) << stored.report;
  const Matrix sums = got.sums();
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t g = 0; g < sums.cols; ++g) {
      double sum = 0.0;
      for (std::int64_t c = 16 * g; c < 16 * (g + 1); ++c) sum += want.stored.at(r, c);
      ASSERT_EQ(sums.at(r, g), sum) << r << ", " << g;
    }
  EXPECT_EQ(got.damage(), "");
}

TEST(QuantiseInt8, EveryWidthAndSizeGivesTheReferencesNumbers) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : {32, 64, 96, 256, 576, 1536})
    for (const double size : {0x1p-149, 1e-43, 1e-40, 1e-7, 1.0, 300.0, 1e37}) {
      SCOPED_TRACE(std::to_string(n) + " columns of " + std::to_string(size));
      Matrix m = test::random_matrix(4, n, DType::kF32, size, rng);
      std::fill(m.row(2).begin(), m.row(2).end(), 0.0);
      test::GuardedActs x(m, 4 * (rng() % 16));
      test::Int8Acts y(4, n, rng() % 4 * 4);
      ops::quantise(test::op_stream(), x.tensor(), y.tensor());
      expect_numbers(y, m);
    }
}

// Halves between two whole numbers, their neighbours, and both ends.
TEST(QuantiseInt8, TiesGoToEven) {
  Matrix m(1, 32 * 16);
  for (std::int64_t g = 0; g < 16; ++g) {
    m.at(0, 32 * g) = g % 2 == 0 ? 127.0 : -127.0;  // the scale is 1
    for (std::int64_t i = 1; i < 32; ++i) {
      const auto half = static_cast<float>(static_cast<double>(g * 16 + i / 2) - 127.0 + 0.5);
      m.at(0, 32 * g + i) = static_cast<double>(i % 3 == 0 ? half : std::nextafter(half, i % 3 == 1 ? 1e9f : -1e9f));
    }
    for (std::int64_t i = 1; i < 32; ++i) m.at(0, 32 * g + i) = std::clamp(m.at(0, 32 * g + i), -127.0, 127.0);
  }
  test::GuardedActs x(m);
  test::Int8Acts y(1, 512);
  ops::quantise(test::op_stream(), x.tensor(), y.tensor());
  expect_numbers(y, m);
  for (const double s : y.numbers().scales.values) EXPECT_EQ(s, 1.0);
}

TEST(QuantiseInt8, NanAndInfinityMakeTheScaleOfTheirGroupNan) {
  auto rng = test::seeded_rng();
  for (const double bad : {kNan, kInf, -kInf})
    for (const std::int64_t at : {0, 31, 32, 45, 95}) {
      Matrix m = test::random_matrix(2, 96, DType::kF32, 1.0, rng);
      m.at(1, at) = bad;
      test::GuardedActs x(m);
      test::Int8Acts y(2, 96);
      ops::quantise(test::op_stream(), x.tensor(), y.tensor());
      expect_numbers(y, m);
      for (std::int64_t g = 0; g < 3; ++g) EXPECT_EQ(std::isnan(y.numbers().scales.at(1, g)), g == at / 32);
    }
}

TEST(QuantiseInt8, RowsAreTheirOwnWhateverTheBatchAndThreads) {
  auto rng = test::seeded_rng();
  const Matrix m = test::random_matrix(101, 288, DType::kF32, 1.0, rng);
  test::GuardedActs x(m);
  for (const int threads : {1, 3})
    for (const std::int64_t rows : {1, 7, 101}) {
      test::Int8Acts y(rows, 288);
      ops::quantise(test::op_stream(threads), x.tensor().first_rows(rows), y.tensor());
      expect_numbers(y, Matrix(rows, 288, {m.values.begin(), m.values.begin() + rows * 288}));
    }
}

// rms_norm, add_rms_norm and silu_mul: float32 as ever, and beside it what quantise() makes of that.
TEST(QuantiseInt8, FusedFormsStoreWhatThePlainOnesWould) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : {32, 576}) {
    const Matrix a = test::random_matrix(5, n, DType::kF32, 1.0, rng), b = test::random_matrix(5, n, DType::kF32, 1.0, rng);
    test::GuardedActs x(a), residual(b), weight(test::random_matrix(1, n, DType::kF32, 1.0, rng)), gate_up(test::random_matrix(5, 2 * n, DType::kF32, 2.0, rng));
    const auto both = [&](const char* name, auto run) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(n) + " columns");
      test::GuardedActs y(5, n);
      test::Int8Acts fused(5, n);
      run(y.tensor(), fused.tensor());
      const auto floats = y.floats();
      expect_numbers(fused, Matrix(5, n, test::widen(std::span<const float>(floats))));
    };
    const auto& s = test::op_stream;
    both("rms_norm", [&](const ops::ActTensor& y, const ops::ActTensor& q) { ops::rms_norm(s(1), x.tensor(), {.weight = weight.floats().data(), .eps = 1e-5f}, y, q); });
    both("add_rms_norm", [&](const ops::ActTensor& y, const ops::ActTensor& q) { ops::add_rms_norm(s(1), x.tensor(), {.residual = residual.tensor(), .weight = weight.floats().data(), .eps = 1e-5f}, y, q); });
    both("silu_mul", [&](const ops::ActTensor& y, const ops::ActTensor& q) { ops::silu_mul(s(1), gate_up.tensor(), y, q); });
  }
}

TEST(QuantiseInt8Death, RowsOfPartialGroupsAndOtherScalingsEndTheProcess) {
  test::GuardedActs x(2, 48);
  std::vector<std::int8_t> bytes(96);
  std::vector<float> floats(64);
  const auto tensor = [&](const ops::InputQuant& q) { return ops::ActTensor{TensorView::dense(bytes.data(), DType::kU8, {2, 48}), q, floats.data()}; };
  EXPECT_DEATH(ops::quantise(test::op_stream(), x.tensor(), tensor(ops::kInt8Input)), "int8 numbers of 48 columns");
  EXPECT_DEATH(ops::quantise(test::op_stream(), x.tensor(), tensor({ops::ActFormat::kInt8, ops::ActScaling::kPerToken, 0, {}})), "int8 numbers");
}

}  // namespace
}  // namespace quire
