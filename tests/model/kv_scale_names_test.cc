// Names of KV scales: every form that exporters write leads to the layer and the kind it means, and nothing else leads anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/kv_scales.h"

namespace quire::model::test {
namespace {

using Kinds = std::vector<ScaleKind>;
constexpr auto kQ = ScaleKind::kQuery, kK = ScaleKind::kKey, kV = ScaleKind::kValue, kP = ScaleKind::kProb;

struct Form {
  const char* name;
  std::int32_t rule;
  std::int64_t layer;
  const char* block;
  Kinds kinds;
  bool zero_point = false;
};

// The table of docs/KV_SCALES.md, row by row.
const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"model.layers.0.self_attn.attn.q_scale", 1, 0, "self_attn", {kQ}},
      {"model.layers.11.self_attn.attn.k_scale", 1, 11, "self_attn", {kK}},
      {"model.layers.7.self_attn.attn.v_scale", 1, 7, "self_attn", {kV}},
      {"model.layers.7.self_attn.attn.prob_scale", 1, 7, "self_attn", {kP}},
      {"model.layers.3.self_attn.kv_scale", 2, 3, "self_attn", {kK, kV}},
      {"model.layers.3.self_attn.k_proj.k_scale", 3, 3, "self_attn", {kK}},
      {"model.layers.3.self_attn.v_proj.v_scale", 3, 3, "self_attn", {kV}},
      {"model.layers.3.self_attn.qkv_proj.k_scale", 4, 3, "self_attn", {kK}},
      {"model.layers.3.self_attn.qkv_proj.v_scale", 4, 3, "self_attn", {kV}},
      {"model.layers.3.self_attn.qkqkv_proj.k_scale", 5, 3, "self_attn", {kK}},
      {"model.layers.3.self_attn.qkqkv_proj.v_scale", 5, 3, "self_attn", {kV}},
      {"model.layers.3.self_attn.q_scale", 6, 3, "self_attn", {kQ}},
      {"model.layers.3.self_attn.k_scale", 6, 3, "self_attn", {kK}},
      {"model.layers.3.self_attn.v_scale", 6, 3, "self_attn", {kV}},
      {"model.layers.3.self_attn.k_proj.output_scale", 7, 3, "self_attn", {kK}},
      {"model.layers.3.self_attn.v_proj.output_scale", 7, 3, "self_attn", {kV}},
      {"model.layers.3.self_attn.q_proj.output_scale", 8, 3, "self_attn", {kQ}},
      {"model.layers.3.self_attn.prob_output_scale", 9, 3, "self_attn", {kP}},
      {"backbone.layers.14.mixer.k_proj.k_scale", 10, 14, "mixer", {kK}},
      {"backbone.layers.14.mixer.v_proj.v_scale", 10, 14, "mixer", {kV}},
      {"model.layers.14.mixer.k_proj.k_scale", 10, 14, "mixer", {kK}},
      {"model.layers.3.self_attn.q.scale", 11, 3, "self_attn", {kQ}},
      {"model.layers.3.self_attn.k_cache.scale", 11, 3, "self_attn", {kK}},
      {"model.layers.3.self_attn.v_cache.scale", 11, 3, "self_attn", {kV}},
      {"model.layers.3.self_attn.q_zero_point", 12, 3, "self_attn", {kQ}, true},
      {"model.layers.3.self_attn.k_zero_point", 12, 3, "self_attn", {kK}, true},
      {"model.layers.3.self_attn.attn.v_zero_point", 12, 3, "self_attn", {kV}, true},
      {"model.layers.3.self_attn.k_proj.k_zero_point", 12, 3, "self_attn", {kK}, true},
      {"model.layers.3.self_attn.v_proj.output_zero_point", 12, 3, "self_attn", {kV}, true},
      {"layers.5.attention.kv_fake_quantizer.qscale_act", 13, 5, "self_attn", {kK, kV}},
      {"layers.5.attention.q_fake_quantizer.qscale_act", 13, 5, "self_attn", {kQ}},
      {"layers.5.attention.k_fake_quantizer.qscale_act", 13, 5, "self_attn", {kK}},
      {"layers.5.attention.v_fake_quantizer.qscale_act", 13, 5, "self_attn", {kV}},
  };
  return all;
}

TEST(ScaleNames, EveryFormLeadsToItsLayerAndKind) {
  for (const Form& form : forms()) {
    const auto named = scale_name(form.name);
    ASSERT_TRUE(named.has_value()) << form.name;
    EXPECT_EQ(named->rule, form.rule) << form.name;
    EXPECT_EQ(named->layer, form.layer) << form.name;
    EXPECT_EQ(named->block, form.block) << form.name;
    EXPECT_EQ(Kinds(named->kinds.begin(), named->kinds.end()), form.kinds) << form.name;
    EXPECT_EQ(named->zero_point, form.zero_point) << form.name;
    EXPECT_TRUE(looks_like_kv_scale(form.name)) << form.name;
  }
}

// A name that was rewritten once, or that is nearly right, is not rewritten again: it leads nowhere, and is refused as scale-like.
TEST(ScaleNames, NearlyRightNamesLeadNowhere) {
  for (const char* name :
       {"model.layers.3.self_attn.attn.attn.k_scale", "model.layers.3.self_attn.k_proj.v_scale", "model.layers.3.self_attn.v_proj.k_scale", "model.layers.3.self_attn.o_proj.output_scale",
        "model.layers.3.self_attn.k_proj.attn.k_scale", "model.layers.3.self_attn.attn.kv_scale", "model.layers.3.self_attn.kv_cache.scale", "model.layers.3.self_attn.k_scale.0",
        "model.layers.3.mlp.down_proj.output_scale", "model.layers.03.self_attn.k_scale", "model.layers.-1.self_attn.k_scale", "model.layers..self_attn.k_scale", "model.layers.self_attn.k_scale",
        "model.layers.3self_attn.k_scale", "model.layers.99999999999999999999.self_attn.k_scale", "model.layers.3.self_attn.K_scale", "self_attn.k_scale", "layers.3.self_attn.k_scale",
        "model.model.layers.3.self_attn.k_scale", "model.layers.3.attention.k_fake_quantizer.qscale_act", "k_scale", "kv_scale", "model.kv_scale", "scale", "zero_point"}) {
    EXPECT_FALSE(scale_name(name).has_value()) << name;
    EXPECT_TRUE(looks_like_kv_scale(name)) << name;
  }
}

TEST(ScaleNames, WhatLinearLayersOwnIsNotAKvScale) {
  for (const char* name :
       {"model.layers.3.self_attn.k_proj.weight_scale", "model.layers.3.self_attn.k_proj.weight_scale_inv", "model.layers.3.self_attn.k_proj.input_scale", "model.layers.3.mlp.up_proj.weight_zero_point",
        "model.layers.3.mlp.up_proj.input_scale_ub", "model.layers.3.self_attn.k_proj.weight", "model.norm.weight", "", "."}) {
    EXPECT_FALSE(scale_name(name).has_value()) << name;
    EXPECT_FALSE(looks_like_kv_scale(name)) << name;
  }
}

}  // namespace
}  // namespace quire::model::test
