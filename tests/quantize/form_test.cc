// The table of forms: names, what each says of itself, and what it has no words for.
#include "quantize/form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/json.h"
#include "config/flag_table.h"
#include "quantize/calibrated.h"

namespace quire::quantize {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Forms, AreTheWordsOfTheFlag) {
  std::vector<std::string_view> names;
  for (const FormRow& row : forms()) {
    names.push_back(row.name);
    EXPECT_EQ(form_named(row.name), row.form);
  }
  EXPECT_EQ(names, config::split_words(config::flag("format").allowed));
  EXPECT_EQ(form_named("fp4"), std::nullopt);
  for (const std::string_view word : config::split_words(config::flag("kv").allowed)) EXPECT_EQ(kv_scales_name(kv_scales_named(word).value()), word);
}

TEST(Forms, ScalesOfHeadsNeedAFormThatHasWordsForThem) {
  for (const FormRow& row : forms()) {
    EXPECT_TRUE(check_kv(row.form, KvScales::kTensor).ok());
    const Status head = check_kv(row.form, KvScales::kHead);
    EXPECT_EQ(head.ok(), row.form == Form::kCompressedTensors);
    if (head.ok()) continue;
    EXPECT_THAT(head.error().message, AllOf(HasSubstr("--kv head: the form " + std::string(row.name)), HasSubstr("--format compressed-tensors")));
  }
}

TEST(Forms, WithoutKvScalesNothingIsSaidOfThem) {
  EXPECT_FALSE(quantization_config(Form::kFp8, KvScales::kNone).contains("kv_cache_scheme"));
  EXPECT_TRUE(quantization_config(Form::kCompressedTensors, KvScales::kNone).at("kv_cache_scheme").is_null());
  EXPECT_EQ(quantization_config(Form::kCompressedTensors, KvScales::kTensor).at("kv_cache_scheme").at("strategy").as_string(), "tensor");
  const auto quark = quantization_config(Form::kQuark, KvScales::kNone);
  EXPECT_TRUE(quark.at("export").at("kv_cache_group").as_array().empty());
  EXPECT_TRUE(quark.at("layer_quant_config").as_object().empty());
  EXPECT_TRUE(hf_quant_config(Form::kModelOpt, KvScales::kNone)->at("quantization").at("kv_cache_quant_algo").is_null());
  EXPECT_EQ(hf_quant_config(Form::kQuark, KvScales::kTensor), std::nullopt);
}

TEST(Forms, OnlySomeNeedAText) {
  for (const FormRow& row : forms()) {
    EXPECT_TRUE(needs_calibration(row.form, KvScales::kTensor));
    EXPECT_EQ(needs_calibration(row.form, KvScales::kNone), row.scheme.input == model::InputScaling::kStatic);
  }
}

TEST(Forms, LinearLayersAreFoundByName) {
  EXPECT_EQ(linear_weight("model.layers.13.mlp.down_proj.weight")->layer, 13);
  EXPECT_EQ(linear_weight("model.layers.13.mlp.down_proj.weight")->linear, "mlp.down_proj");
  for (const char* other : {"lm_head.weight", "model.embed_tokens.weight", "model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.bias", "model.layers..self_attn.q_proj.weight",
                            "model.layers.1self_attn.q_proj.weight", "model.layers.1", "model.layers.1.weight", "layers.1.self_attn.q_proj.weight"})
    EXPECT_EQ(linear_weight(other), std::nullopt) << other;
}

calibration::Ranges ranges_of_one_layer() {
  calibration::Ranges out;
  out.layers.push_back({.queries = {1, 2}, .keys = {4.48f, 0}, .values = {0, 0}, .qkv_input = 448, .o_input = 0, .gate_up_input = 44.8f, .down_input = 0.1f});
  out.num_tokens = 7;
  out.num_windows = 1;
  return out;
}

TEST(Calibrated, ScalesAreTheLargestOver448AndOneForZeros) {
  const auto ranges = ranges_of_one_layer();
  for (const char* linear : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) EXPECT_EQ(input_scale(ranges, 0, linear), 1.0f);
  EXPECT_EQ(input_scale(ranges, 0, "self_attn.o_proj"), 1.0f);
  for (const char* linear : {"mlp.gate_proj", "mlp.up_proj"}) EXPECT_EQ(input_scale(ranges, 0, linear), 44.8f / 448.0f);
  EXPECT_EQ(input_scale(ranges, 0, "mlp.down_proj"), 0.1f / 448.0f);
  EXPECT_EQ(kv_scale(ranges, 0, CachePart::kKeys, KvScales::kTensor), std::vector<float>{4.48f / 448.0f});
  EXPECT_EQ(kv_scale(ranges, 0, CachePart::kKeys, KvScales::kHead), (std::vector<float>{4.48f / 448.0f, 1.0f}));
  EXPECT_EQ(kv_scale(ranges, 0, CachePart::kValues, KvScales::kTensor), std::vector<float>{1.0f});
}

TEST(Calibrated, ZerosAreNamedWhereTheyAreUsed) {
  const auto ranges = ranges_of_one_layer();
  EXPECT_THAT(zeros_in(ranges, Form::kFp8, KvScales::kNone), testing::ElementsAre("layer 0: attention's output is zero, scale 1"));
  EXPECT_THAT(zeros_in(ranges, Form::kFp8Dynamic, KvScales::kTensor), testing::ElementsAre("layer 0: every number of its values is zero, scale 1"));
  EXPECT_EQ(zeros_in(ranges, Form::kCompressedTensors, KvScales::kHead).size(), 3u);
}

TEST(Calibrated, ComesBackFromTheJournal) {
  const std::string text = boost::json::serialize(ranges_json(ranges_of_one_layer()));
  const auto ranges = ranges_from_json(parse_json(text)->as_object(), 1, 2).value();
  EXPECT_EQ(ranges.layers[0].keys, ranges_of_one_layer().layers[0].keys);
  EXPECT_EQ(ranges.layers[0].down_input, 0.1f);
  EXPECT_EQ(ranges.num_tokens, 7);
  auto json = ranges_json(ranges_of_one_layer());
  EXPECT_FALSE(ranges_from_json(json, 2, 2).ok());
  EXPECT_FALSE(ranges_from_json(json, 1, 3).ok());
  json["layers"].as_array()[0].as_object()["o_input"] = -1.0;
  EXPECT_FALSE(ranges_from_json(json, 1, 2).ok());
}

}  // namespace
}  // namespace quire::quantize
