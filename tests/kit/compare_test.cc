// The comparator itself: every way in which a wrong result could pass.
#include "kit/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace quire::test {
namespace {

using Values = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Compare, AcceptsUpToAndIncludingTheBound) {
  EXPECT_TRUE(compare(Values{1.5, -1.5}, Values{1.0, -1.0}, 0.5).equal);
  EXPECT_FALSE(compare(Values{std::nextafter(1.5, 2.0)}, Values{1.0}, 0.5).equal);
}

TEST(Compare, ErrorsOnEitherSideAndOfEitherSignAreFound) {
  for (const double want : {10.0, -10.0, 0.0})
    for (const double error : {1.0, -1.0}) {
      EXPECT_FALSE(compare(Values{want + error}, Values{want}, 0.5).equal) << want << " " << error;
      EXPECT_FALSE(compare(Values{want}, Values{want + error}, 0.5).equal) << want << " " << error;
    }
  EXPECT_FALSE(compare(Values{-100.0}, Values{-1.0}, 0.5).equal);  // both negative: a ratio would hide it
  EXPECT_FALSE(compare(Values{3.0}, Values{-3.0}, 0.5).equal);
}

TEST(Compare, ZeroBoundDemandsEqualValues) {
  EXPECT_TRUE(compare(Values{0.25, -0.0}, Values{0.25, 0.0}, 0.0).equal);  // equal as numbers; compare_bits sees the sign
  EXPECT_FALSE(compare(Values{0.25}, Values{std::nextafter(0.25, 1.0)}, 0.0).equal);
  EXPECT_FALSE(compare(Values{0.0}, Values{std::numeric_limits<double>::denorm_min()}, 0.0).equal);
}

TEST(Compare, NanMustMeetNan) {
  EXPECT_TRUE(compare(Values{kNan}, Values{kNan}, 1.0).equal);
  EXPECT_TRUE(compare(Values{-kNan}, Values{kNan}, 1.0).equal);
  EXPECT_FALSE(compare(Values{kNan}, Values{1.0}, 1e300).equal);
  EXPECT_FALSE(compare(Values{1.0}, Values{kNan}, 1e300).equal);
  EXPECT_FALSE(compare(Values{kNan}, Values{kInf}, 1e300).equal);
}

TEST(Compare, InfinityMustMeetTheSameInfinity) {
  EXPECT_TRUE(compare(Values{kInf, -kInf}, Values{kInf, -kInf}, 0.0).equal);
  EXPECT_FALSE(compare(Values{kInf}, Values{-kInf}, 1e300).equal);
  EXPECT_FALSE(compare(Values{kInf}, Values{1e300}, 1e300).equal);
  EXPECT_FALSE(compare(Values{1e300}, Values{kInf}, 1e300).equal);
}

TEST(Compare, LengthsMustAgree) {
  EXPECT_TRUE(compare(Values{}, Values{}, 0.0).equal);
  EXPECT_FALSE(compare(Values{}, Values{1.0}, 1.0).equal);
  EXPECT_FALSE(compare(Values{1.0, 2.0}, Values{1.0}, 1.0).equal);
  EXPECT_FALSE(compare(Values{1.0}, Values{1.0}, Values{}).equal);
  EXPECT_FALSE(compare(Values{1.0}, Values{1.0}, Values{0.0, 0.0}).equal);
}

TEST(Compare, BoundsThatCheckNothingAreRefused) {
  EXPECT_FALSE(compare(Values{1.0}, Values{1.0}, kNan).equal);
  EXPECT_FALSE(compare(Values{1.0}, Values{1.0}, -1.0).equal);
  EXPECT_FALSE(compare(Values{1.0}, Values{1.0}, kInf).equal);
  EXPECT_FALSE(compare(Values{kNan}, Values{kNan}, kInf).equal);
}

TEST(Compare, ReportsTheWorstElementInUnitsOfItsOwnBound) {
  const Comparison c = compare(Values{5.0, -2.5, 0.0}, Values{4.0, -2.0, 0.0}, Values{10.0, 0.1, 1.0});
  EXPECT_FALSE(c.equal);
  EXPECT_EQ(c.num_wrong, 1u);
  EXPECT_EQ(c.worst, 1u);
  EXPECT_NEAR(c.used, 5.0, 1e-12);
  EXPECT_NE(c.report.find("worst at 1"), std::string::npos) << c.report;
  EXPECT_NE(c.report.find("-2.5"), std::string::npos) << c.report;
  EXPECT_NE(c.report.find("bound 0.1"), std::string::npos) << c.report;
}

TEST(Compare, OneWrongElementAmongManyIsFoundWhereverItIs) {
  const std::size_t n = 257;
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{128}, n - 1}) {
    Values got(n, -1.0);
    got[wrong] = -1.0 - 1e-6;
    const Comparison c = compare(got, Values(n, -1.0), 1e-7);
    EXPECT_FALSE(c.equal);
    EXPECT_EQ(c.worst, wrong);
    EXPECT_EQ(c.num_wrong, 1u);
  }
}

TEST(CompareBits, FindsTheFirstDifference) {
  const std::vector<float> want = {0.0f, 1.0f, 2.0f};
  EXPECT_TRUE(compare_bits(std::span<const float>(want), std::span<const float>(want)).equal);
  std::vector<float> got = want;
  got[1] = std::nextafter(1.0f, 2.0f);
  got[2] = 5.0f;
  const Comparison c = compare_bits(std::span<const float>(got), std::span<const float>(want));
  EXPECT_FALSE(c.equal);
  EXPECT_EQ(c.worst / sizeof(float), 1u);
  EXPECT_NE(c.report.find("first in element 1"), std::string::npos) << c.report;
}

TEST(CompareBits, SignedZerosAndNanPayloadsDifferAndLengthsCount) {
  const std::vector<float> zero = {0.0f}, minus_zero = {-0.0f}, none = {};
  EXPECT_FALSE(compare_bits(std::span<const float>(zero), std::span<const float>(minus_zero)).equal);
  EXPECT_FALSE(compare_bits(std::span<const float>(zero), std::span<const float>(none)).equal);
  EXPECT_TRUE(compare_bits(std::span<const float>(none), std::span<const float>(none)).equal);
  const std::vector<float> nan = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(compare_bits(std::span<const float>(nan), std::span<const float>(nan)).equal);
}

TEST(Narrowing, RefusesWhatAFloatCannotHold) {
  EXPECT_EQ(narrow_exactly(Values{0.5, -2.0}), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_DEATH((void)narrow_exactly(Values{0.1}), "float32");
}

}  // namespace
}  // namespace quire::test
