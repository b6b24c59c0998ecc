// Scales and codes of whole matrices against the float64 definition of rounding, for every kind of scale, source type and odd size.
#include "quantize/rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kit/seed.h"
#include "reference/rounding.h"

namespace quire::quantize {
namespace {

using model::WeightScaling;
using testing::HasSubstr;

struct Sample {
  std::string bytes;
  std::vector<float> values;  // what the bytes say
  Matrix matrix;
};

// Numbers of very different sizes; an odd start, so that nothing is aligned.
Sample sample(DType dtype, std::int64_t rows, std::int64_t columns, std::mt19937_64& rng) {
  Sample s;
  std::normal_distribution<float> normal;
  s.bytes = "x";
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const float x = std::clamp(normal(rng) * std::exp2(normal(rng) * 4.0f), -6e4f, 6e4f);
    const auto bits = reference::encode(dtype, static_cast<double>(x));
    s.bytes.append(reinterpret_cast<const char*>(&bits), dtype_bytes(dtype));
    s.values.push_back(static_cast<float>(reference::decode(dtype, bits)));
  }
  s.matrix = {"m", dtype, {}, rows, columns};
  return s;
}

Matrix of(const Sample& s) {
  Matrix m = s.matrix;
  m.bytes = std::as_bytes(std::span(s.bytes)).subspan(1);
  return m;
}

// Rows and columns that share a scale.
std::pair<std::int64_t, std::int64_t> part(WeightScaling kind, const Matrix& m) {
  if (kind == WeightScaling::kTensor) return {m.rows, m.columns};
  if (kind == WeightScaling::kChannel) return {1, m.columns};
  return {128, 128};
}

TEST(Rounding, ScalesAndCodesAreTheDefinitions) {
  auto rng = quire::test::seeded_rng();
  for (const WeightScaling kind : {WeightScaling::kTensor, WeightScaling::kChannel, WeightScaling::kBlock})
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 200}, {128, 128}, {129, 257}, {260, 5}}) {
        const Sample s = sample(dtype, rows, columns, rng);
        const Matrix m = of(s);
        const auto [part_rows, part_columns] = part(kind, m);
        const std::int64_t across = (columns + part_columns - 1) / part_columns, down = (rows + part_rows - 1) / part_rows;
        const auto scales = weight_scales(m, kind);
        ASSERT_TRUE(scales.ok());
        ASSERT_EQ(std::ssize(scales.value()), across * down);
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * columns));
        // In two pieces, as a large matrix is written.
        const std::int64_t cut = rows / 2;
        round_rows(m, kind, scales.value(), {.first = 0, .count = cut}, std::span(codes).first(static_cast<std::size_t>(cut * columns)));
        round_rows(m, kind, scales.value(), {.first = cut, .count = rows - cut}, std::span(codes).subspan(static_cast<std::size_t>(cut * columns)));
        for (std::int64_t i = 0; i < across * down; ++i) {
          float most = 0.0f;
          const float scale = scales.value()[static_cast<std::size_t>(i)];
          for (std::int64_t r = i / across * part_rows; r < std::min(rows, (i / across + 1) * part_rows); ++r)
            for (std::int64_t c = i % across * part_columns; c < std::min(columns, (i % across + 1) * part_columns); ++c) {
              const auto at = static_cast<std::size_t>(r * columns + c);
              most = std::max(most, std::fabs(s.values[at]));
              EXPECT_EQ(codes[at], reference::encode(DType::kFp8E4m3, static_cast<double>(s.values[at] / scale))) << s.values[at] << " / " << scale;
            }
          EXPECT_EQ(scale, most / 448.0f);
        }
      }
}

TEST(Rounding, APartOfZerosHasScaleOne) {
  const std::string zeros(3 * 4 * 2, '\0');
  const Matrix m{"m", DType::kBF16, std::as_bytes(std::span(zeros)), 3, 4};
  EXPECT_EQ(weight_scales(m, WeightScaling::kChannel).value(), std::vector<float>(3, 1.0f));
}

TEST(Rounding, WhatIsNoNumberIsNamed) {
  std::vector<float> values(12, 1.0f);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  const Matrix m{"model.layers.0.mlp.up_proj.weight", DType::kF32, std::as_bytes(std::span(values)), 3, 4};
  const auto scales = weight_scales(m, WeightScaling::kTensor);
  ASSERT_FALSE(scales.ok());
  EXPECT_THAT(scales.error().message, HasSubstr("model.layers.0.mlp.up_proj.weight: element [1, 3] is NaN or infinite"));
}

TEST(Rounding, ShapesOfScales) {
  EXPECT_TRUE(scale_shape(WeightScaling::kTensor, 300, 200).empty());
  EXPECT_EQ(scale_shape(WeightScaling::kChannel, 300, 200), (std::vector<std::int64_t>{300, 1}));
  EXPECT_EQ(scale_shape(WeightScaling::kBlock, 300, 200), (std::vector<std::int64_t>{3, 2}));
}

}  // namespace
}  // namespace quire::quantize
