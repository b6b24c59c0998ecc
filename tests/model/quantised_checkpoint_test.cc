// Quantised checkpoints against their files: which tensors each method needs, in which shapes and types, and every refusal by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "base/fp8.h"
#include "checkpoint_files.h"
#include "kit/temp_dir.h"
#include "model/json_fields.h"
#include "model/quant_parse.h"
#include "quant_configs.h"

namespace quire::model::test {
namespace {

using ::quire::test::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDown0 = "model.layers.0.mlp.down_proj.", kQ1 = "model.layers.1.self_attn.q_proj.";

ModelSpec spec_of(const std::string& quantization_config) {
  ModelSpec spec = tiny_spec();
  spec.intermediate_size = 300;  // three blocks
  const auto value = parse_json(R"({"quantization_config": )" + quantization_config + "}");
  QUIRE_CHECK(value.ok()) << value.error().message;
  Findings findings;
  spec.quant = parse_quantization(value->get_object(), nullptr, spec.num_layers, findings);
  QUIRE_CHECK(findings.empty()) << findings.texts().front();
  return spec;
}

std::vector<std::string> names_of(const ModelSpec& spec, const std::string& prefix) {
  std::vector<std::string> out;
  for (const ParameterSpec& p : parameters_of(spec))
    if (p.name.starts_with(prefix)) out.push_back(p.name.substr(prefix.size()));
  return out;
}

ParameterSpec parameter(const ModelSpec& spec, const std::string& name) {
  for (const ParameterSpec& p : parameters_of(spec))
    if (p.name == name) return p;
  QUIRE_CHECK(false) << name;
  return {};
}

// A valid tensor of a parameter: FP8 bytes that count up, float32 otherwise.
RawTensor tensor_for(const ParameterSpec& p) {
  if (p.kind != ParameterKind::kFp8) return counting_tensor(p.name, p.shape, 1.0f);
  std::string bytes(static_cast<std::size_t>(p.shape[0] * p.shape[1]), '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 0x7f);
  return {p.name, "F8_E4M3", p.shape, bytes};
}

std::vector<RawTensor> quantised_tensors(const ModelSpec& spec) {
  std::vector<RawTensor> out;
  for (const ParameterSpec& p : parameters_of(spec)) out.push_back(tensor_for(p));
  return out;
}

// The answer to a checkpoint of `spec` in which `edit` changed tensors: from opening it and reading all of it.
std::string answer(const ModelSpec& spec, const std::function<void(std::vector<RawTensor>&)>& edit = [](auto&) {}) {
  auto tensors = quantised_tensors(spec);
  edit(tensors);
  const TempDir dir;
  (void)dir.write("model.safetensors", safetensors_of(tensors));
  auto weights = open_checkpoint_weights(dir.path(), spec, {});
  if (!weights.ok()) return weights.error().message;
  for (const ParameterSpec& p : parameters_of(spec)) {
    const auto raw = weights.value()->read(p);
    if (!raw.ok()) return raw.error().message;
    EXPECT_EQ(raw->dtype == DType::kFp8E4m3, p.kind == ParameterKind::kFp8) << p.name;
  }
  return "read";
}

std::string with_tensor(const ModelSpec& spec, const std::string& name, const std::function<void(RawTensor&)>& edit) {
  return answer(spec, [&](std::vector<RawTensor>& tensors) {
    for (RawTensor& t : tensors)
      if (t.name == name) return edit(t);
    QUIRE_CHECK(false) << name;
  });
}

TEST(QuantisedParameters, EachMethodsTensors) {
  EXPECT_THAT(names_of(spec_of(kFp8Static), kQ1), ElementsAre("weight_scale", "input_scale", "weight"));
  EXPECT_THAT(names_of(spec_of(kFp8Dynamic), kQ1), ElementsAre("weight_scale", "weight"));
  EXPECT_THAT(names_of(spec_of(kFp8Block), kQ1), ElementsAre("weight_scale_inv", "weight"));
  EXPECT_THAT(names_of(spec_of(kFp8Block), "model.layers.1.mlp.down_proj."), ElementsAre("weight")) << "ignored";
  EXPECT_THAT(names_of(spec_of(kCtStatic), kQ1), ElementsAre("weight_scale", "input_scale", "weight"));
  EXPECT_THAT(names_of(spec_of(kCtBlock), kQ1), ElementsAre("weight_scale", "weight"));
  EXPECT_THAT(names_of(spec_of(kModelOpt), kQ1), ElementsAre("weight_scale", "input_scale", "weight"));
  EXPECT_THAT(names_of(spec_of(kPtpc), kQ1), ElementsAre("weight_scale", "weight"));
  EXPECT_EQ(parameter(spec_of(kFp8Static), kDown0 + "weight_scale").shape, std::vector<std::int64_t>());
  EXPECT_EQ(parameter(spec_of(kPtpc), kDown0 + "weight_scale").shape, std::vector<std::int64_t>{8});
  EXPECT_EQ(parameter(spec_of(kFp8Block), kDown0 + "weight_scale_inv").shape, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(parameter(spec_of(kFp8Block), "model.layers.1.mlp.up_proj.weight_scale_inv").shape, (std::vector<std::int64_t>{3, 1}));
  ModelSpec on_load = spec_of(kFp8Dynamic);
  on_load.quant.on_load = true;
  EXPECT_THAT(names_of(on_load, kQ1), ElementsAre("weight"));
  EXPECT_EQ(parameter(on_load, kQ1 + "weight").kind, ParameterKind::kFloat);
  for (const ParameterSpec& p : parameters_of(spec_of(kFp8Static)))
    if (p.name == "lm_head.weight" || p.name.find("embed") != std::string::npos || p.name.find("norm") != std::string::npos) {
      EXPECT_EQ(p.kind, ParameterKind::kFloat) << p.name;
    }
}

TEST(QuantisedCheckpoint, EveryMethodReads) {
  for (const std::string& config : {std::string(kFp8Static), std::string(kFp8Dynamic), std::string(kFp8Block), std::string(kCtStatic), std::string(kCtDynamic), std::string(kCtBlock),
                                    std::string(kCtWeightOnly), quark_config(), std::string(kModelOpt), std::string(kFbgemm), std::string(kPtpc)})
    EXPECT_EQ(answer(spec_of(config)), "read") << config;
}

TEST(QuantisedCheckpoint, ScalesInTheShapesThatExportersWrite) {
  const auto shaped = [](const ModelSpec& spec, const std::string& name, const std::vector<std::int64_t>& shape) { return with_tensor(spec, name, [&](RawTensor& t) { t = counting_tensor(name, shape, 1.0f); }); };
  const ModelSpec tensor = spec_of(kFp8Static), channel = spec_of(kPtpc), block = spec_of(kFp8Block);
  for (const char* scale : {"weight_scale", "input_scale"}) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 1}}) EXPECT_EQ(shaped(tensor, kDown0 + scale, shape), "read");
    EXPECT_THAT(shaped(tensor, kDown0 + scale, {8}), AllOf(HasSubstr(kDown0 + scale + " is [8]"), HasSubstr("config.json says one number")));
    EXPECT_THAT(shaped(tensor, kDown0 + scale, {0}), HasSubstr(kDown0 + scale + " is [0]"));
  }
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{8}, {8, 1}}) EXPECT_EQ(shaped(channel, kDown0 + "weight_scale", shape), "read");
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 8}, {300}, {8, 2}, {8, 1, 1}})
    EXPECT_THAT(shaped(channel, kDown0 + "weight_scale", shape), AllOf(HasSubstr(kDown0 + "weight_scale is "), HasSubstr("config.json says [8]"))) << shape_text(shape);
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3, 1}, {3}, {1}, {1, 4}}) EXPECT_THAT(shaped(block, kDown0 + "weight_scale_inv", shape), HasSubstr("config.json says [1, 3]"));
  EXPECT_EQ(with_tensor(tensor, kDown0 + "weight_scale", [](RawTensor& t) { t = {t.name, "BF16", {1}, std::string("\x80\x3f", 2)}; }), "read");
  EXPECT_THAT(with_tensor(tensor, kDown0 + "weight_scale", [](RawTensor& t) { t = {t.name, "I32", {}, std::string(4, '\1')}; }), HasSubstr(kDown0 + "weight_scale is I32"));
  EXPECT_THAT(with_tensor(tensor, kDown0 + "weight_scale", [](RawTensor& t) { t = {t.name, "F8_E8M0", {1}, std::string(1, '\1')}; }), HasSubstr(kDown0 + "weight_scale"));
}

TEST(QuantisedCheckpoint, MissingAndUnusedScalesAreRefused) {
  const ModelSpec spec = spec_of(kFp8Static), dynamic = spec_of(kFp8Dynamic);
  for (const char* scale : {"weight_scale", "input_scale"})
    EXPECT_THAT(answer(spec, [&](auto& tensors) { std::erase_if(tensors, [&](const RawTensor& t) { return t.name == kDown0 + scale; }); }), HasSubstr("1 missing tensors: " + kDown0 + scale));
  EXPECT_THAT(answer(dynamic, [](auto& tensors) { tensors.push_back(counting_tensor(kDown0 + "input_scale", {}, 1.0f)); }), HasSubstr("does not use: \"" + kDown0 + "input_scale"));
}

TEST(QuantisedCheckpoint, TypesMustBeTheDeclaredOnes) {
  const ModelSpec spec = spec_of(kFp8Block);
  EXPECT_THAT(with_tensor(spec, kDown0 + "weight", [](RawTensor& t) { t = counting_tensor(t.name, t.shape); }),
              AllOf(HasSubstr("1 tensors quantised otherwise than declared: " + kDown0 + "weight is F32"), HasSubstr("config.json: quantization_config.quant_method makes it F8_E4M3")));
  EXPECT_THAT(with_tensor(spec, kDown0 + "weight", [](RawTensor& t) { t.dtype = "F8_E5M2"; }), HasSubstr("weight is F8_E5M2"));
  const auto fp8 = [](RawTensor& t) {
    t.dtype = "F8_E4M3";
    t.bytes.resize(t.bytes.size() / 4);
  };
  for (const std::string name : {"model.layers.1.mlp.down_proj.weight", "lm_head.weight", "model.embed_tokens.weight"})
    EXPECT_THAT(with_tensor(spec, name, fp8), HasSubstr(name + " is F8_E4M3, and config.json: quantization_config.quant_method does not quantise it"));
  ModelSpec plain = tiny_spec();
  EXPECT_THAT(with_tensor(plain, kDown0 + "weight", fp8), HasSubstr(kDown0 + "weight is F8_E4M3, and config.json declares no quantisation"));
}

TEST(QuantisedCheckpoint, NanBytesAreRefusedWithTheirPlace) {
  const ModelSpec spec = spec_of(kFp8Dynamic);
  for (const char nan : {'\x7f', '\xff'})
    EXPECT_THAT(with_tensor(spec, kQ1 + "weight", [&](RawTensor& t) { t.bytes[37] = nan; }), AllOf(HasSubstr(kQ1 + "weight"), HasSubstr("first at element 37")));
  EXPECT_EQ(with_tensor(spec, kQ1 + "weight", [](RawTensor& t) { t.bytes[37] = '\x7e', t.bytes[38] = '\xfe', t.bytes[39] = '\x80'; }), "read");
}

TEST(QuantisedDummies, AreNumbersOfTheUsualSizeWithScalesAboveZero) {
  for (const char* config : {kFp8Static, kPtpc, kFp8Block}) {
    const ModelSpec spec = spec_of(config);
    auto a = dummy_weights(spec, 3), b = dummy_weights(spec, 3);
    for (const ParameterSpec& p : parameters_of(spec)) {
      const auto raw = a->read(p), again = b->read(p);
      ASSERT_TRUE(raw.ok());
      ASSERT_TRUE(std::ranges::equal(raw->bytes, again->bytes));
      if (p.kind == ParameterKind::kFloat) continue;
      ASSERT_EQ(raw->dtype, p.kind == ParameterKind::kFp8 ? DType::kFp8E4m3 : DType::kF32);
      if (p.kind != ParameterKind::kFp8) {
        for (std::size_t i = 0; i < raw->bytes.size() / 4; ++i) {
          float x = 0;
          std::memcpy(&x, raw->bytes.data() + 4 * i, 4);
          ASSERT_TRUE(x > 0 && std::isfinite(x)) << p.name;
        }
        continue;
      }
      const auto scale = a->read(parameter(spec, p.name.substr(0, p.name.size() - 6) + std::string(weight_scale_name(spec.quant.method, spec.quant.layers[0][0].weight))));
      float first = 0;
      std::memcpy(&first, scale->bytes.data(), 4);
      double squares = 0;
      for (const std::byte byte : again->bytes) {
        const float x = to_float(Fp8E4m3{std::to_integer<std::uint8_t>(byte)});
        ASSERT_TRUE(std::isfinite(x)) << p.name;
        squares += double{x} * x * first * first;
      }
      const double deviation = std::sqrt(squares / static_cast<double>(again->bytes.size()));
      if (again->bytes.size() > 1000) {
        EXPECT_TRUE(deviation > 0.014 && deviation < 0.026) << p.name << ": " << deviation;
      }
    }
  }
}

}  // namespace
}  // namespace quire::model::test
