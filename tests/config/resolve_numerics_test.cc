// Resolution of formats: weights, activations and the KV cache, from the flags and what the checkpoint declares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/print.h"
#include "config/resolve.h"
#include "kit.h"

namespace quire::config {
namespace {

using test::resolve_error;
using test::resolved;
using test::World;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Static FP8 weights, and a cache that the checkpoint declares FP8.
World fp8_world(model::QuantMethod method) {
  World world;
  world.model.quant.method = method;
  world.model.quant.declared_by = "config.json: quantization_config.quant_method";
  model::LayerSchemes all;
  all.fill({model::WeightScaling::kTensor, model::InputScaling::kStatic});
  world.model.quant.layers.assign(static_cast<std::size_t>(world.model.num_layers), all);
  world.model.quant.kv = model::KvScheme{model::KvScheme::Granularity::kTensor, "quantization_config.kv_cache_scheme = \"static\""};
  return world;
}

TEST(Quantization, IsTheCheckpointsOrADisagreementThatNamesBoth) {
  for (const model::QuantMethodRow& row : model::quant_methods()) {
    const World world = fp8_world(row.method);
    for (const std::string& flag : {std::string(), std::string(" -q none"), std::string(" -q None"), " --quantization " + std::string(row.name)}) {
      const ResolvedConfig config = resolved("MODEL" + flag, world);
      EXPECT_EQ(config.model.quant.method, row.method) << flag;
      EXPECT_FALSE(config.model.quant.on_load);
      EXPECT_EQ(config.model.quant.layers, world.model.quant.layers);
    }
    for (const model::QuantMethodRow& other : model::quant_methods()) {
      if (other.method == row.method) continue;
      EXPECT_THAT(resolve_error("MODEL --quantization " + std::string(other.name), world),
                  HasSubstr("--quantization '" + std::string(other.name) + "': the checkpoint is quantised by '" + std::string(row.name) + "' (config.json: quantization_config.quant_method); allowed: none"));
    }
  }
}

TEST(Quantization, Fp8QuantisesOtherWeightsWhileLoading) {
  EXPECT_EQ(resolved("MODEL").model.quant.method, model::QuantMethod::kNone);
  const ResolvedConfig config = resolved("MODEL --quantization fp8");
  EXPECT_TRUE(config.model.quant.on_load);
  EXPECT_EQ(config.model.quant.summary(), "fp8, made while loading: 42 of 42 linear layers: tensor weights, inputs per token");
  EXPECT_EQ(config.engine.kv_dtype, config.engine.dtype);
  ASSERT_THAT(config.adjustments, ::testing::Contains(::testing::Field(&Adjustment::flag, "--quantization")));
  EXPECT_THAT(config_text(config), HasSubstr("model.quantization: fp8, made while loading"));
  EXPECT_EQ(resolved("MODEL -q ptpc_fp8").model.quant.summary(), "ptpc_fp8, made while loading: 42 of 42 linear layers: channel weights, inputs per token");
  for (const char* method : {"quark", "compressed-tensors", "modelopt", "fbgemm_fp8"})
    EXPECT_THAT(resolve_error(std::string("MODEL -q ") + method),
                HasSubstr(std::string("-q '") + method + "': the checkpoint declares no quantisation, and this one is not made while loading; allowed: none, fp8, ptpc_fp8"));
}

TEST(KvCacheDtype, AutoIsWhatTheCheckpointDeclares) {
  World world = fp8_world(model::QuantMethod::kFp8);
  const ResolvedConfig config = resolved("MODEL", world);
  EXPECT_EQ(config.engine.kv_dtype, DType::kFp8E4m3);
  bool told = false;
  for (const Adjustment& a : config.adjustments) told = told || (a.flag == "--kv-cache-dtype" && a.text.find("kv_cache_scheme = \"static\"") != std::string::npos);
  EXPECT_TRUE(told);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype bfloat16", world).engine.kv_dtype, DType::kBF16);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype fp8_e5m2", world).engine.kv_dtype, DType::kFp8E5m2) << "refused with the scale ledger";
  world.variables = {{"QUIRE_FP8_FLAVOR", "fnuz"}};
  EXPECT_EQ(resolved("MODEL", world).engine.kv_dtype, DType::kFp8E4m3Fnuz);
}

TEST(KvCacheDtype, Fp8IsTheDevicesE4m3) {
  EXPECT_EQ(resolved("MODEL").engine.kv_dtype, resolved("MODEL").engine.dtype);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype fp8").engine.kv_dtype, DType::kFp8E4m3);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype fp8_e4m3").engine.kv_dtype, DType::kFp8E4m3);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype fp8_e5m2").engine.kv_dtype, DType::kFp8E5m2);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype float16").engine.kv_dtype, DType::kF16);
  World fnuz;
  fnuz.variables = {{"QUIRE_FP8_FLAVOR", "fnuz"}};
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype fp8", fnuz).engine.kv_dtype, DType::kFp8E4m3Fnuz);
  EXPECT_EQ(resolved("MODEL --kv-cache-dtype fp8_e5m2", fnuz).engine.kv_dtype, DType::kFp8E5m2);
}

TEST(Dtype, FollowsTheCheckpointUnlessAsked) {
  World world;
  world.model.dtype = DType::kBF16;
  EXPECT_EQ(resolved("M", world).engine.dtype, DType::kBF16);
  EXPECT_EQ(resolved("M", world).engine.kv_dtype, DType::kBF16);
  EXPECT_EQ(resolved("M --dtype half", world).engine.dtype, DType::kF16);
  EXPECT_EQ(resolved("M --dtype float", world).engine.kv_dtype, DType::kF32);
  EXPECT_EQ(resolved("M --dtype float32 --kv-cache-dtype bfloat16", world).engine.kv_dtype, DType::kBF16);
  world.model.dtype = DType::kF32;
  const ResolvedConfig config = resolved("M", world);
  EXPECT_EQ(config.engine.dtype, DType::kF32);
  ASSERT_THAT(config.adjustments, SizeIs(1));
  EXPECT_THAT(config.adjustments[0].text, HasSubstr("stays float32"));
}

}  // namespace
}  // namespace quire::config
