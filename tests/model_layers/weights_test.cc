// Loading: every parameter read once, the arena exactly as planned, bad values refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "model_layers/layers_rig.h"
#include "ops/cpu_kernels.h"

namespace quire {
namespace {

struct Loading {
  device::CpuDevice device{1, ops::cpu_kernels()};
  model::LoadProgress progress;
};

TEST(Weights, EveryParameterIsReadOnceAndTheArenaIsThePlan) {
  for (int bits = 0; bits < 8; ++bits) {
    model::ModelSpec spec = test::small_spec(2, 16);
    spec.qkv_bias = spec.o_bias = (bits & 1) != 0;
    spec.mlp_bias = (bits & 2) != 0;
    spec.tie_word_embeddings = (bits & 4) != 0;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Loading l;
      test::RandomWeights source(DType::kF32);
      const model::WeightsOptions options{dtype, 128};
      const auto weights = model::Weights::load(l.device, spec, options, source, l.progress);
      ASSERT_TRUE(weights.ok());
      EXPECT_EQ(l.device.allocated_bytes(), model::Weights::arena_bytes(spec, options));
      const auto parameters = model::parameters_of(spec);
      EXPECT_EQ(source.reads.size(), parameters.size());
      for (const auto& p : parameters) EXPECT_EQ(source.reads[p.name], 1) << p.name;
      EXPECT_EQ(l.progress.parameters_done, static_cast<std::int64_t>(parameters.size()));
      EXPECT_EQ(l.progress.parameters_total, l.progress.parameters_done);
    }
  }
}

// One bad element in one parameter.
class OneBadValue final : public model::WeightSource {
 public:
  OneBadValue(std::string name, std::size_t element, float value) : name_(std::move(name)), element_(element), value_(value) {}
  [[nodiscard]] Result<Raw> read(const model::ParameterSpec& parameter) override {
    auto raw = good_.read(parameter);
    if (!raw.ok() || parameter.name != name_) return raw;
    copy_.assign(raw->bytes.begin(), raw->bytes.end());
    std::memcpy(copy_.data() + element_ * 4, &value_, 4);
    return Raw{DType::kF32, copy_};
  }

 private:
  test::RandomWeights good_{DType::kF32};
  std::string name_;
  std::size_t element_;
  float value_;
  std::vector<std::byte> copy_;
};

TEST(Weights, NonFiniteValuesAndOverflowsAreRefusedByName) {
  const model::ModelSpec spec = test::small_spec(2, 16);
  for (const auto& p : model::parameters_of(spec)) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Loading l;
      OneBadValue source(p.name, 7, bad);
      const auto got = model::Weights::load(l.device, spec, {DType::kF32, 128}, source, l.progress);
      ASSERT_FALSE(got.ok()) << p.name;
      EXPECT_EQ(got.error().code, ErrorCode::kCorrupt);
      EXPECT_NE(got.error().message.find(p.name), std::string::npos) << got.error().message;
      EXPECT_NE(got.error().message.find("element 7 "), std::string::npos) << got.error().message;
      EXPECT_EQ(l.device.allocated_bytes(), 0u) << "a refused load keeps nothing";
    }
    Loading l;
    OneBadValue large(p.name, 7, 1e6f);  // fits float32 and bfloat16, not float16
    const auto got = model::Weights::load(l.device, spec, {DType::kF16, 128}, large, l.progress);
    EXPECT_EQ(got.ok(), p.shape.size() == 1) << p.name << ": vectors stay float32";
    if (!got.ok()) {
      EXPECT_NE(got.error().message.find(p.name), std::string::npos) << got.error().message;
    }
  }
}

// The rotary table: cos and sin of float32 angles, rounded once, at the ends of the served length.
TEST(Weights, TheRotaryTableCoversTheServedLength) {
  model::ModelSpec spec = test::small_spec(2, 16);
  spec.rope.kind = model::RopeKind::kYarn;
  spec.rope.factor = 3.0;
  Loading l;
  test::RandomWeights source(DType::kF32);
  const auto weights = model::Weights::load(l.device, spec, {DType::kF32, 1000}, source, l.progress).value();
  const auto rotation = reference::rotation_of({spec.rope, 16, 64, 1000});
  ASSERT_GT(rotation.attention_scale, 1.0);
  for (const std::int64_t p : {0, 1, 127, 999})
    for (std::size_t i = 0; i < 8; ++i) {
      const auto angle = static_cast<double>(static_cast<float>(p) * static_cast<float>(rotation.frequencies[i]));
      const float* row = weights.layers()[0].cos_sin + p * 16;
      EXPECT_NEAR(static_cast<double>(row[i]), std::cos(angle) * rotation.attention_scale, 1e-7) << p;
      EXPECT_NEAR(static_cast<double>(row[8 + i]), std::sin(angle) * rotation.attention_scale, 1e-7) << p;
    }
}

}  // namespace
}  // namespace quire
