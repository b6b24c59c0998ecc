// Norms and the gated activation against their twins, for every width and alignment; rows on their own; nothing outside the output.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cmath>
#include <limits>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "ops/op_kit.h"
#include "ops/ops.h"
#include "reference/norm.h"
#include "reference/silu_mul.h"

namespace quire {
namespace {

using reference::Matrix;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

std::vector<std::int64_t> widths() {
  std::vector<std::int64_t> w(std::begin(test::kOddSizes), std::end(test::kOddSizes));
  for (const std::int64_t n : {576, 999, 1000, 2999, 3000}) w.push_back(n);
  return w;
}

struct NormCase {
  Matrix x, residual, weight;
  double eps;
};

NormCase norm_case(std::int64_t n, std::mt19937_64& rng) {
  constexpr double kSizes[] = {1e-3, 1.0, 300.0};
  constexpr float kEps[] = {1e-5f, 1e-6f, 1e-12f};
  return {test::random_matrix(5, n, DType::kF32, kSizes[rng() % 3], rng), test::random_matrix(5, n, DType::kF32, 1.0, rng), test::random_matrix(1, n, DType::kF32, 1.0, rng),
          static_cast<double>(kEps[rng() % 3])};
}

TEST(RmsNorm, EveryWidthWithinItsBound) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : widths()) {
    SCOPED_TRACE(n);
    const NormCase c = norm_case(n, rng);
    test::GuardedActs x(c.x, 4 * (rng() % 16)), w(c.weight, 4 * (rng() % 16)), y(5, n, 4 * (rng() % 16));
    ops::rms_norm(test::op_stream(), x.tensor(), {.weight = w.floats().data(), .eps = static_cast<float>(c.eps)}, y.tensor());
    EXPECT_EQ(y.buffer.damage(), "");
    const auto cmp = test::compare(y.buffer.values(), reference::rms_norm(c.x, c.weight.values, c.eps).values, test::rms_norm_bounds(c.x, c.weight.values, c.eps, {}));
    EXPECT_TRUE(cmp.equal) << cmp.report;
    const auto kept = test::compare_bits(x.floats(), test::narrow_exactly(c.x.values));
    EXPECT_TRUE(kept.equal) << "the input changed: " << kept.report;
  }
}

TEST(AddRmsNorm, AddsOnceAndNormsTheSum) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : widths()) {
    SCOPED_TRACE(n);
    const NormCase c = norm_case(n, rng);
    test::GuardedActs x(c.x, 4 * (rng() % 16)), r(c.residual, 4 * (rng() % 16)), w(c.weight), y(5, n, 4 * (rng() % 16));
    ops::add_rms_norm(test::op_stream(), x.tensor(), {.residual = r.tensor(), .weight = w.floats().data(), .eps = static_cast<float>(c.eps)}, y.tensor());
    EXPECT_EQ(y.buffer.damage() + r.buffer.damage(), "");
    Matrix sum(5, n);  // one float32 addition: known exactly
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] = static_cast<float>(c.x.values[i]) + static_cast<float>(c.residual.values[i]);
    const auto added = test::compare_bits(r.floats(), test::narrow_exactly(sum.values));
    EXPECT_TRUE(added.equal) << added.report;
    const auto cmp = test::compare(y.buffer.values(), reference::rms_norm(sum, c.weight.values, c.eps).values, test::rms_norm_bounds(sum, c.weight.values, c.eps, {}));
    EXPECT_TRUE(cmp.equal) << cmp.report;
  }
}

TEST(RmsNorm, RowsAreTheirOwnWhateverTheBatchAndThreads) {
  auto rng = test::seeded_rng();
  constexpr std::int64_t kRows = 700, kN = 129;
  Matrix m = test::random_matrix(kRows, kN, DType::kF32, 1.0, rng);
  std::fill(m.row(2).begin(), m.row(2).end(), 0.0);
  test::GuardedActs x(m), w(test::random_matrix(1, kN, DType::kF32, 1.0, rng)), all(kRows, kN), threaded(kRows, kN);
  x.row(1)[5] = kNan;
  ops::rms_norm(test::op_stream(), x.tensor(), {.weight = w.floats().data(), .eps = 1e-5f}, all.tensor());
  ops::rms_norm(test::op_stream(4), x.tensor(), {.weight = w.floats().data(), .eps = 1e-5f}, threaded.tensor());
  EXPECT_TRUE(test::compare_bits(all.floats(), threaded.floats()).equal);
  for (std::int64_t r = 0; r < kRows; ++r) {
    test::GuardedActs one(1, kN), y(1, kN);
    std::copy(x.row(r).begin(), x.row(r).end(), one.floats().begin());
    ops::rms_norm(test::op_stream(), one.tensor(), {.weight = w.floats().data(), .eps = 1e-5f}, y.tensor());
    const auto c = test::compare_bits(all.row(r), y.floats());
    ASSERT_TRUE(c.equal) << "row " << r << ": " << c.report;
    for (const float v : y.floats()) ASSERT_TRUE(r == 1 ? std::isnan(v) : r == 2 ? v == 0.0f : std::isfinite(v)) << r;
  }
}

TEST(SiluMul, EveryWidthAndAlignmentWithinItsBound) {
  auto rng = test::seeded_rng();
  test::Precision precision;
  precision.transcendental_ulps = 4.0;  // 2 units in the last place (exp_test.cc)
  for (const std::int64_t n : widths())
    for (const double size : {0.5, 40.0}) {
      SCOPED_TRACE(n);
      const Matrix m = test::random_matrix(3, 2 * n, DType::kF32, size, rng);
      test::GuardedActs x(m, 4 * (rng() % 16)), y(3, n, 4 * (rng() % 16));
      ops::silu_mul(test::op_stream(), x.tensor(), y.tensor());
      EXPECT_EQ(y.buffer.damage(), "");
      const auto cmp = test::compare(y.buffer.values(), reference::silu_mul(m).values, test::silu_mul_bounds(m, precision));
      EXPECT_TRUE(cmp.equal) << cmp.report;
    }
}

TEST(GeluTanhMul, EveryWidthAndAlignmentWithinItsBound) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : widths())
    for (const double size : {0.5, 40.0}) {
      SCOPED_TRACE(n);
      const Matrix m = test::random_matrix(3, 2 * n, DType::kF32, size, rng);
      test::GuardedActs x(m, 4 * (rng() % 16)), y(3, n, 4 * (rng() % 16));
      ops::gelu_tanh_mul(test::op_stream(), x.tensor(), y.tensor());
      EXPECT_EQ(y.buffer.damage(), "");
      const auto cmp = test::compare(y.buffer.values(), reference::gelu_tanh_mul(m).values, test::gelu_tanh_mul_bounds(m, {}));
      EXPECT_TRUE(cmp.equal) << cmp.report;
    }
}

TEST(GeluTanhMul, EdgesAreTheTwins) {
  const float gates[] = {0.0f, -0.0f, 1e-30f, 0.7f, -0.7f, -3.0f, -5.5f, -8.0f, -10.0f, -12.0f, 88.0f, -88.0f, -1e30f, 1e30f, kInf, kNan, -kInf, 3e38f};
  for (const float g : gates) {
    test::GuardedActs x(1, 2), y(1, 1);
    x.floats()[0] = g;
    x.floats()[1] = 1.0f;
    ops::gelu_tanh_mul(test::op_stream(), x.tensor(), y.tensor());
    const double want = reference::gelu_tanh(static_cast<double>(g));
    const Matrix m(1, 2, {static_cast<double>(g), 1.0});
    const double bound = std::isfinite(want) ? test::gelu_tanh_mul_bounds(m, {})[0] : 0.0;
    const auto c = test::compare(y.buffer.values(), std::vector<double>{want}, bound);
    EXPECT_TRUE(c.equal) << g << ": " << c.report;
  }
}

TEST(AddRmsNorm, ABranchIsNormedBeforeItIsAdded) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : widths()) {
    SCOPED_TRACE(n);
    const NormCase c = norm_case(n, rng);
    const Matrix branch = test::random_matrix(1, n, DType::kF32, 1.0, rng);
    test::GuardedActs x(c.x, 4 * (rng() % 16)), r(c.residual, 4 * (rng() % 16)), w(c.weight), b(branch, 4 * (rng() % 16)), y(5, n, 4 * (rng() % 16));
    ops::add_rms_norm(test::op_stream(), x.tensor(), {.residual = r.tensor(), .weight = w.floats().data(), .eps = static_cast<float>(c.eps), .branch = b.floats().data()}, y.tensor());
    EXPECT_EQ(y.buffer.damage() + r.buffer.damage(), "");
    const Matrix normed = reference::rms_norm(c.x, branch.values, c.eps);
    std::vector<double> sums, bounds = test::rms_norm_bounds(c.x, branch.values, c.eps, {});
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      sums.push_back(c.residual.values[i] + normed.values[i]);
      bounds[i] = reference::rounding_error(sums[i], bounds[i], DType::kF32);
    }
    const auto added = test::compare(r.buffer.values(), sums, bounds);
    EXPECT_TRUE(added.equal) << added.report;
    const Matrix left(5, n, r.buffer.values());
    const auto cmp = test::compare(y.buffer.values(), reference::rms_norm(left, c.weight.values, c.eps).values, test::rms_norm_bounds(left, c.weight.values, c.eps, {}));
    EXPECT_TRUE(cmp.equal) << cmp.report;
    const auto kept = test::compare_bits(x.floats(), test::narrow_exactly(c.x.values));
    EXPECT_TRUE(kept.equal) << "the branch changed: " << kept.report;
  }
}

TEST(SoftCap, EveryWidthWithinItsBoundAndTheTailAsTheRest) {
  auto rng = test::seeded_rng();
  for (const std::int64_t n : widths())
    for (const double size : {0.01, 3.0, 500.0}) {
      SCOPED_TRACE(n);
      const float cap = 7.3f;
      Matrix m = test::random_matrix(3, n, DType::kF32, size, rng);
      std::fill(m.row(1).begin(), m.row(1).end(), m.at(1, 0));
      test::GuardedActs x(m, 4 * (rng() % 16));
      ops::soft_cap(test::op_stream(), x.tensor(), cap);
      EXPECT_EQ(x.buffer.damage(), "");
      std::vector<double> want, bounds;
      for (const double v : m.values) {
        want.push_back(static_cast<double>(cap) * std::tanh(v / static_cast<double>(cap)));
        bounds.push_back(reference::soft_cap_error(want.back(), static_cast<double>(cap), {}));
      }
      const auto cmp = test::compare(x.buffer.values(), want, bounds);
      EXPECT_TRUE(cmp.equal) << cmp.report;
      for (const float v : x.row(1)) ASSERT_EQ(v, x.row(1)[0]);
      for (const float v : x.floats()) ASSERT_LE(std::fabs(v), cap);
    }
  test::GuardedActs edges(1, 5);
  for (std::size_t i = 0; i < 5; ++i) edges.floats()[i] = std::array{kInf, -kInf, kNan, 0.0f, -0.0f}[i];
  ops::soft_cap(test::op_stream(), edges.tensor(), 2.0f);
  EXPECT_EQ(edges.floats()[0], 2.0f);
  EXPECT_EQ(edges.floats()[1], -2.0f);
  EXPECT_TRUE(std::isnan(edges.floats()[2]));
  EXPECT_TRUE(edges.floats()[3] == 0.0f && edges.floats()[4] == 0.0f && std::signbit(edges.floats()[4]));
}

// The last element of a row must not be computed differently from one in the middle: a request's bits may not depend on where it is.
TEST(SiluMul, TheTailComputesWhatTheVectorsCompute) {
  for (const std::int64_t n : test::kOddSizes) {
    test::GuardedActs x(2, 2 * n), y(2, n);
    std::fill(x.floats().begin(), x.floats().end(), 0.7371f);
    ops::silu_mul(test::op_stream(), x.tensor(), y.tensor());
    for (const float v : y.floats()) ASSERT_EQ(v, y.floats()[0]) << n;
    ops::gelu_tanh_mul(test::op_stream(), x.tensor(), y.tensor());
    for (const float v : y.floats()) ASSERT_EQ(v, y.floats()[0]) << n;
  }
}

TEST(SiluMul, EdgesAreTheTwins) {
  const float gates[] = {0.0f, -0.0f, 88.0f, -88.0f, -104.0f, -1e30f, 1e30f, kInf, kNan, -kInf, 3e38f};
  for (const float g : gates) {
    test::GuardedActs x(1, 2), y(1, 1);
    x.floats()[0] = g;
    x.floats()[1] = 1.0f;
    ops::silu_mul(test::op_stream(), x.tensor(), y.tensor());
    const double want = reference::silu(static_cast<double>(g));
    const Matrix m(1, 2, {static_cast<double>(g), 1.0});
    const double bound = std::isfinite(want) ? test::silu_mul_bounds(m, {})[0] : 0.0;
    const std::vector<double> got = y.buffer.values();
    const auto c = test::compare(got, std::vector<double>{want}, bound);
    EXPECT_TRUE(c.equal) << g << ": " << c.report;
  }
}

// Memory that ends exactly at the last element; the page after it may not be touched.
struct FencedFloats {
  explicit FencedFloats(std::int64_t n) : count(n) {
    base = static_cast<std::byte*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    QUIRE_CHECK(base != MAP_FAILED && ::mprotect(base + 4096, 4096, PROT_NONE) == 0);
  }
  ~FencedFloats() { ::munmap(base, 8192); }
  FencedFloats(const FencedFloats&) = delete;
  FencedFloats& operator=(const FencedFloats&) = delete;
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(base + 4096) - count; }
  [[nodiscard]] ops::ActTensor row() const { return ops::ActTensor{TensorView::dense(data(), DType::kF32, {1, count})}; }
  std::int64_t count;
  std::byte* base;
};

TEST(Elementwise, NothingIsReadOrWrittenPastTheEnd) {
  for (std::int64_t n = 1; n <= 40; ++n) {
    FencedFloats x(n), twice(2 * n), y(n), weight(n), residual(n);
    for (const FencedFloats* f : {&x, &twice, &weight, &residual}) std::fill(f->data(), f->data() + f->count, 1.0f);
    ops::silu_mul(test::op_stream(), twice.row(), y.row());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y.data()[i], 0.731f, 1e-3f) << n;
    ops::gelu_tanh_mul(test::op_stream(), twice.row(), y.row());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y.data()[i], 0.841f, 1e-3f) << n;
    ops::soft_cap(test::op_stream(), y.row(), 0.5f);
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y.data()[i], 0.467f, 1e-3f) << n;
    ops::rms_norm(test::op_stream(), x.row(), {.weight = weight.data(), .eps = 0.0f}, y.row());
    ops::add_rms_norm(test::op_stream(), x.row(), {.residual = residual.row(), .weight = weight.data(), .eps = 0.0f}, y.row());
    ops::add_rms_norm(test::op_stream(), x.row(), {.residual = residual.row(), .weight = weight.data(), .eps = 0.0f, .branch = weight.data()}, y.row());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y.data()[i], 1.0f, 1e-3f) << n;
  }
}

}  // namespace
}  // namespace quire
