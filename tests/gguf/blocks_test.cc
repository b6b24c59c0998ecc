// Blocks of every quantised type against the float64 twin and against another implementation's answers.
#include "gguf/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "base/dtype.h"
#include "kit/seed.h"
#include "reference/gguf_blocks.h"

namespace quire::gguf {
namespace {

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<float> dequantised(TensorType type, const std::string& bytes) {
  const TypeFacts& facts = facts_of(type);
  std::vector<float> out(bytes.size() / static_cast<std::size_t>(facts.block_bytes) * static_cast<std::size_t>(facts.block_elements));
  dequantise(type, std::as_bytes(std::span(bytes)), out);
  return out;
}

class Blocks : public ::testing::TestWithParam<TypeFacts> {};

// Any bits at all, subnormal, infinite and NaN scales included: what is finite is the twin's value rounded once.
TEST_P(Blocks, AreTheTwinRoundedOnceForAnyBits) {
  auto rng = test::seeded_rng();
  std::string bytes(static_cast<std::size_t>(GetParam().block_bytes) * 200, '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  const std::vector<float> got = dequantised(GetParam().type, bytes);
  const std::vector<double> twin = reference::gguf_dequantise(GetParam().name, std::as_bytes(std::span(bytes)));
  ASSERT_EQ(got.size(), twin.size());
  std::size_t finite = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(twin[i])) {
      EXPECT_FALSE(std::isfinite(got[i])) << i;
      continue;
    }
    ++finite;
    ASSERT_EQ(got[i], static_cast<float>(twin[i])) << GetParam().name << " element " << i;
  }
  EXPECT_GT(finite, got.size() / 2);
}

// Twin and code alike come from our reading of the format; these numbers do not.
TEST_P(Blocks, AreWhatAnotherImplementationSays) {
  std::ifstream goldens(std::string(QUIRE_SOURCE_DIR) + "/tests/gguf/block_goldens.txt");
  std::string name, block_hex, value_hex;
  bool found = false;
  while (goldens >> name >> block_hex >> value_hex) {
    if (name != GetParam().name) continue;
    found = true;
    const std::string values = from_hex(value_hex);
    const std::vector<float> got = dequantised(GetParam().type, from_hex(block_hex));
    ASSERT_EQ(values.size(), got.size() * sizeof(float));
    for (std::size_t i = 0; i < got.size(); ++i) {
      float want = 0;
      std::memcpy(&want, values.data() + i * sizeof want, sizeof want);
      ASSERT_EQ(got[i], want) << name << " element " << i;
    }
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(Types, Blocks, ::testing::ValuesIn(all_types().begin() + 3, all_types().end()), [](const auto& tested) { return std::string(tested.param.name); });

TEST(FloatTypes, AreWidenedExactly) {
  const std::vector<float> values = {0.0f, -1.5f, 65504.0f, 0x1p-24f, 3.140625f};
  std::string f32, f16, bf16;
  for (const float v : values) {
    const std::uint16_t half = to_float16(v).bits, brain = to_bfloat16(v).bits;
    f32.append(reinterpret_cast<const char*>(&v), 4);
    f16.append(reinterpret_cast<const char*>(&half), 2);
    bf16.append(reinterpret_cast<const char*>(&brain), 2);
  }
  EXPECT_EQ(dequantised(TensorType::kF32, f32), values);
  EXPECT_EQ(dequantised(TensorType::kF16, f16), values);
  std::vector<float> rounded;
  for (const float v : values) rounded.push_back(to_float(to_bfloat16(v)));
  EXPECT_EQ(dequantised(TensorType::kBF16, bf16), rounded);
}

TEST(Types, HaveDistinctIdsAndNames) {
  for (const TypeFacts& facts : all_types()) {
    EXPECT_EQ(&facts_of(facts.type), &facts);
    EXPECT_EQ(type_of_id(facts.id), &facts);
    EXPECT_EQ(type_of_name(facts.name), &facts);
  }
  EXPECT_EQ(type_of_id(17), nullptr);
  EXPECT_EQ(type_of_name("IQ2_XS"), nullptr);
  EXPECT_EQ(type_text(17), "IQ2_XS (17)");
  EXPECT_EQ(type_text(99), "(99)");
}

}  // namespace
}  // namespace quire::gguf
