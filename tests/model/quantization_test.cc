// quantization_config of every method: the scheme of each linear layer, the KV cache's, and every refusal by name.
#include "model/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/json_fields.h"
#include "model/quant_parse.h"
#include "quant_configs.h"

namespace quire::model::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LinearScheme k16Bit{}, kTensorStatic{WeightScaling::kTensor, InputScaling::kStatic}, kTensorToken{WeightScaling::kTensor, InputScaling::kPerToken},
    kChannelToken{WeightScaling::kChannel, InputScaling::kPerToken}, kChannelStatic{WeightScaling::kChannel, InputScaling::kStatic}, kBlockGroup{WeightScaling::kBlock, InputScaling::kPerGroup},
    kChannelAlone{WeightScaling::kChannel, InputScaling::kNone};

struct Parsed {
  QuantSpec spec;
  std::string refusal;  // "": none
};

Parsed parsed_files(const std::string& config, const std::string* hf_quant) {
  const auto value = parse_json(config);
  QUIRE_CHECK(value.ok()) << value.error().message << config;
  Result<boost::json::value> beside = boost::json::value();
  if (hf_quant != nullptr) beside = parse_json(*hf_quant);
  QUIRE_CHECK(beside.ok()) << *hf_quant;
  Findings findings;
  Parsed out{parse_quantization(value->get_object(), hf_quant == nullptr ? nullptr : &beside->get_object(), 2, findings), ""};
  if (const Status status = findings.status("config.json"); !status.ok()) out.refusal = status.error().message;
  return out;
}

Parsed parsed(const std::string& quantization_config) { return parsed_files(R"({"quantization_config": )" + quantization_config + "}", nullptr); }

// The text with one place changed.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  QUIRE_CHECK(at != std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_all(const Parsed& p, QuantMethod method, const LinearScheme& scheme) {
  EXPECT_EQ(p.refusal, "");
  EXPECT_EQ(p.spec.method, method);
  ASSERT_EQ(p.spec.layers.size(), 2u);
  for (const LayerSchemes& layer : p.spec.layers)
    for (const LinearScheme& s : layer) EXPECT_EQ(s, scheme) << scheme_text(s);
  EXPECT_EQ(p.spec.any_fp8_weight(), scheme.weight != WeightScaling::kNone);
}

TEST(QuantConfig, NothingDeclaredIsNothing) {
  for (const char* config : {"{}", R"({"quantization_config": null})", R"({"compression_config": null, "quantization_config": null})"}) {
    const Parsed p = parsed_files(config, nullptr);
    EXPECT_EQ(p.refusal, "");
    EXPECT_EQ(p.spec.method, QuantMethod::kNone);
    EXPECT_FALSE(p.spec.any_fp8_weight());
    EXPECT_EQ(p.spec.scheme_of(7, LinearKind::kDown), k16Bit);
    EXPECT_EQ(p.spec.summary(), "none");
  }
}

TEST(QuantConfig, EveryMethodsOwnForm) {
  expect_all(parsed(kFp8Static), QuantMethod::kFp8, kTensorStatic);
  expect_all(parsed(kFp8Dynamic), QuantMethod::kFp8, kTensorToken);
  expect_all(parsed(kCtStatic), QuantMethod::kCompressedTensors, kTensorStatic);
  expect_all(parsed(kCtDynamic), QuantMethod::kCompressedTensors, kChannelToken);
  expect_all(parsed(kCtBlock), QuantMethod::kCompressedTensors, kBlockGroup);
  expect_all(parsed(kCtWeightOnly), QuantMethod::kCompressedTensors, kChannelAlone);
  expect_all(parsed(quark_config()), QuantMethod::kQuark, kTensorStatic);
  expect_all(parsed(kModelOpt), QuantMethod::kModelOpt, kTensorStatic);
  expect_all(parsed(kPtpc), QuantMethod::kPtpcFp8, kChannelToken);
  EXPECT_EQ(parsed(kFp8Static).spec.summary(), "fp8: 14 of 14 linear layers: tensor weights, static inputs");
}

TEST(QuantConfig, IgnoredModulesStayAsTheyAre) {
  const QuantSpec block = parsed(kFp8Block).spec;
  EXPECT_EQ(parsed(kFp8Block).refusal, "");
  EXPECT_EQ(block.scheme_of(1, LinearKind::kDown), k16Bit);
  EXPECT_EQ(block.scheme_of(0, LinearKind::kDown), kBlockGroup);
  EXPECT_EQ(block.summary(), "fp8: 13 of 14 linear layers: 128x128 block weights, inputs per 128 columns of a token; 1: not quantised");
  const QuantSpec fbgemm = parsed(kFbgemm).spec;
  for (const LinearKind kind : {LinearKind::kQ, LinearKind::kK, LinearKind::kV, LinearKind::kO}) EXPECT_EQ(fbgemm.scheme_of(0, kind), k16Bit);
  EXPECT_EQ(fbgemm.scheme_of(0, LinearKind::kGate), kChannelToken);
  EXPECT_EQ(fbgemm.scheme_of(1, LinearKind::kQ), kChannelToken);
  for (const char* ignore : {R"("re:.*mlp.*")", R"("re:model\\.layers\\.[0-9]+\\.mlp\\..*$")", R"("model.layers.0.mlp.up_proj", "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.down_proj")"}) {
    const Parsed p = parsed(edited(kCtDynamic, R"("lm_head")", ignore));
    EXPECT_EQ(p.refusal, "") << ignore;
    for (const LinearKind kind : {LinearKind::kGate, LinearKind::kUp, LinearKind::kDown}) EXPECT_EQ(p.spec.scheme_of(0, kind), k16Bit) << ignore;
    EXPECT_EQ(p.spec.scheme_of(0, LinearKind::kO), kChannelToken);
  }
  // Their words are whole names; only the "fp8" family's may be a name's end.
  EXPECT_EQ(parsed(edited(kCtDynamic, R"("lm_head")", R"("down_proj", "layers.0")")).spec.scheme_of(0, LinearKind::kDown), kChannelToken);
  EXPECT_EQ(parsed(edited(kFp8Dynamic, R"("lm_head")", R"("down_proj")")).spec.scheme_of(1, LinearKind::kDown), k16Bit);
  EXPECT_EQ(parsed(edited(kFp8Dynamic, R"("lm_head")", R"("n_proj", "model.layers.0.mlp.dow")")).spec.scheme_of(0, LinearKind::kDown), kTensorToken);
  EXPECT_EQ(parsed(edited(quark_config(), R"("lm_head")", R"("re:.*o_proj", "*down_proj")")).spec.scheme_of(0, LinearKind::kDown), k16Bit);
}

TEST(QuantConfig, TheCachesScheme) {
  for (const std::string& config : {std::string(kFp8Static), std::string(kCtStatic), quark_config(), std::string(kModelOpt)}) {
    ASSERT_TRUE(parsed(config).spec.kv.has_value()) << config;
    EXPECT_EQ(parsed(config).spec.kv->granularity, KvScheme::Granularity::kTensor);
  }
  EXPECT_EQ(parsed(edited(kCtStatic, R"("type": "float", "strategy": "tensor", "dynamic")", R"("type": "float", "strategy": "attn_head", "dynamic")")).spec.kv->granularity, KvScheme::Granularity::kHead);
  for (const char* config : {kFp8Dynamic, kCtDynamic, kFbgemm, kPtpc}) EXPECT_EQ(parsed(config).spec.kv, std::nullopt) << config;
  EXPECT_THAT(parsed(edited(kFp8Static, R"("static", "quant_method")", R"("dynamic", "quant_method")")).refusal, HasSubstr("quantization_config.kv_cache_scheme = \"dynamic\""));
}

TEST(QuantConfig, GroupsOfCompressedTensors) {
  // Attention in one way, the rest in another; a name says more than a class.
  const std::string attention = R"("group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "input_activations": null}, )";
  const Parsed p = parsed(edited(kCtStatic, R"("group_0")", attention + R"("group_0")"));
  EXPECT_EQ(p.refusal, "");
  EXPECT_EQ(p.spec.scheme_of(1, LinearKind::kV), kChannelAlone);
  EXPECT_EQ(p.spec.scheme_of(1, LinearKind::kUp), kTensorStatic);
  // Modules that no group targets are not quantised.
  const Parsed some = parsed(edited(kCtDynamic, R"(["Linear"])", R"(["re:.*mlp.*", "LlamaAttention"])"));
  EXPECT_EQ(some.spec.scheme_of(0, LinearKind::kQ), k16Bit);
  EXPECT_EQ(some.spec.scheme_of(0, LinearKind::kDown), kChannelToken);
  const std::string twice = R"("group_1": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}, )";
  EXPECT_THAT(parsed(edited(kCtStatic, R"("group_0")", twice + R"("group_0")")).refusal, AllOf(HasSubstr("group_1 and group_0 both claim model.layers.0.self_attn.q_proj")));
  EXPECT_THAT(parsed(edited(kCtDynamic, R"("lm_head")", R"("Linear")")).spec.summary(), HasSubstr("no linear layer is quantised"));
}

TEST(QuantConfig, DynamicPerTensorInputsAreTakenPerTokenAndSaidSo) {
  const Parsed p = parsed(edited(kCtStatic, R"("dynamic": false)", R"("dynamic": true)"));
  expect_all(p, QuantMethod::kCompressedTensors, kTensorToken);
  EXPECT_THAT(p.spec.notes, ::testing::ElementsAre(HasSubstr("per token")));
  const std::string dynamic = edited(kQuarkTensor, R"("is_dynamic": false)", R"("is_dynamic": true)");
  const Parsed q = parsed(quark_config(quark_layer(kQuarkTensor, dynamic, "null"), "{}", "[]"));
  expect_all(q, QuantMethod::kQuark, kTensorToken);
  EXPECT_THAT(q.spec.notes, ::testing::SizeIs(1));
  EXPECT_THAT(parsed(kCtStatic).spec.notes, IsEmpty());
}

TEST(QuantConfig, QuarksLayersByNameThenTypeThenGlobal) {
  const std::string channel = edited(kQuarkTensor, "per_tensor", "per_channel"), plain = quark_layer(kQuarkTensor, kQuarkTensor, "null"), other = quark_layer(channel, kQuarkTensor, "null");
  const Parsed p = parsed(quark_config(plain, R"({"*down_proj": )" + other + R"(, "*proj": )" + plain + "}", "[]"));
  EXPECT_EQ(p.refusal, "");
  EXPECT_EQ(p.spec.kv, std::nullopt);
  EXPECT_EQ(p.spec.scheme_of(0, LinearKind::kDown), kChannelStatic) << "the first pattern that fits";
  EXPECT_EQ(p.spec.scheme_of(0, LinearKind::kUp), kTensorStatic);
  const Parsed type = parsed(edited(quark_config(plain, "{}", "[]"), R"("layer_type_quant_config": {})", R"("layer_type_quant_config": {"Linear": )" + other + "}"));
  expect_all(type, QuantMethod::kQuark, kChannelStatic);
  EXPECT_THAT(parsed(quark_config(plain, R"({"*q_proj": )" + other + "}", "[]")).refusal, HasSubstr("self_attn.q_proj (channel weights, static inputs) and self_attn.k_proj (tensor weights, static inputs)"));
}

TEST(QuantConfig, QuarksCacheGroup) {
  const std::string plain = quark_layer(kQuarkTensor, kQuarkTensor, "null"), cached = quark_layer(kQuarkTensor, kQuarkTensor, kQuarkTensor);
  const auto with = [&](const std::string& k, const std::string& v, const std::string& group = R"(["*k_proj", "*v_proj"])") {
    return parsed(quark_config(plain, R"({"*k_proj": )" + k + R"(, "*v_proj": )" + v + R"(, "*q_proj": )" + cached + "}", group)).refusal;
  };
  EXPECT_EQ(with(cached, cached), "") << "q's own outputs are the cache's business as well";
  EXPECT_THAT(with(cached, cached, R"(["*k_proj", "*w_proj"])"), HasSubstr("\"*w_proj\", which is no key of layer_quant_config"));
  const auto said_twice = [&](const std::string& again) {
    return parsed(quark_config(plain, R"({"*k_proj": )" + cached + R"(, "*v_proj": )" + cached + "}", R"(["*k_proj", "*v_proj"])", R"(, "kv_cache_quant_config": {"*v_proj": )" + again + "}")).refusal;
  };
  EXPECT_EQ(said_twice(cached), "");
  for (const std::string& other : {plain, quark_layer(kQuarkTensor, kQuarkTensor, edited(kQuarkTensor, "fp8_e4m3", "int8")), std::string("1")})
    EXPECT_THAT(said_twice(other), HasSubstr("kv_cache_quant_config.*v_proj: its output_tensors are not those of")) << other;
  EXPECT_THAT(with(cached, plain), HasSubstr("differ"));
  EXPECT_THAT(with(plain, plain), HasSubstr("output_tensors is empty"));
  EXPECT_THAT(with(cached, cached, "[]"), HasSubstr("*k_proj.output_tensors")) << "outputs of an ordinary layer";
  const std::string channel = quark_layer(kQuarkTensor, kQuarkTensor, edited(kQuarkTensor, "per_tensor", "per_channel"));
  EXPECT_THAT(with(channel, channel), HasSubstr("only static fp8_e4m3 per_tensor"));
  const std::string int8 = quark_layer(kQuarkTensor, kQuarkTensor, edited(kQuarkTensor, "fp8_e4m3", "int8"));
  EXPECT_THAT(with(int8, int8), HasSubstr("output_tensors.dtype = \"int8\""));
  EXPECT_THAT(parsed(quark_config(plain, "{}", "[]", R"(, "kv_cache_quant_config": {"*k_proj": )" + cached + "}")).refusal, HasSubstr("kv_cache_group is empty"));
}

TEST(QuantConfig, ModelOptBesideConfigJson) {
  const std::string beside = kHfQuantConfig;
  const Parsed p = parsed_files("{}", &beside);
  EXPECT_EQ(p.refusal, "");
  EXPECT_EQ(p.spec.method, QuantMethod::kModelOpt);
  EXPECT_EQ(p.spec.scheme_of(0, LinearKind::kUp), k16Bit);
  EXPECT_EQ(p.spec.scheme_of(1, LinearKind::kUp), kTensorStatic);
  EXPECT_THAT(p.spec.kv->declared_by, HasSubstr("hf_quant_config.json.quantization.kv_cache_quant_algo"));
  const std::string nested = R"({"quantization_config": {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}})";
  expect_all(parsed_files(nested, nullptr), QuantMethod::kModelOpt, kTensorStatic);
  EXPECT_THAT(parsed_files(nested, &beside).refusal, HasSubstr("say different things"));
  const std::string same = edited(beside, R"(, "model.layers.0.mlp*")", "");
  EXPECT_EQ(parsed_files(nested, &same).refusal, "");
  EXPECT_THAT(parsed_files(std::string(R"({"quantization_config": )") + kFp8Dynamic + "}", &same).refusal, HasSubstr("say different things"));
  const std::string cache_alone = R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})";
  EXPECT_FALSE(parsed_files("{}", &cache_alone).spec.any_fp8_weight());
  EXPECT_TRUE(parsed_files("{}", &cache_alone).spec.kv.has_value());
}

struct Refusal {
  std::string config;
  std::vector<const char*> words;
};

void expect_refused(const std::vector<Refusal>& cases) {
  for (const auto& [config, words] : cases) {
    const std::string refusal = parsed(config).refusal;
    for (const char* word : words) EXPECT_THAT(refusal, HasSubstr(word)) << config;
    EXPECT_FALSE(words.empty());
  }
}

TEST(QuantConfig, RefusesByName) {
  expect_refused({
      {R"("fp8")", {"quantization_config = \"fp8\" must be an object"}},
      {"{}", {"quantization_config.quant_method is missing", "fp8, compressed-tensors, quark, modelopt, fbgemm_fp8, ptpc_fp8"}},
      {R"({"quant_method": 8})", {"quantization_config.quant_method = 8 must be a string"}},
      {R"({"quant_method": "awq", "bits": 4})", {"quant_method = \"awq\" is not implemented", "implemented: fp8, "}},
      {R"({"quant_method": "compressed_tensors"})", {"did you mean 'compressed-tensors'?"}},
      {edited(kFp8Static, R"("activation_scheme": "static")", R"("activation_scheme": "offline")"), {"activation_scheme = \"offline\"", "\"static\" or \"dynamic\""}},
      {R"({"quant_method": "fp8"})", {"activation_scheme = (absent)"}},
      {edited(kFp8Block, "dynamic", "static"), {"weight_block_size with activation_scheme \"static\""}},
      {edited(kFp8Block, "[128, 128]", "[64, 64]"), {"weight_block_size = [64,64]", "only null or [128, 128]"}},
      {edited(kFp8Block, "[128, 128]", "128"), {"weight_block_size = 128"}},
      {edited(kFp8Block, R"("e4m3")", R"("e5m2")"), {"fmt = \"e5m2\""}},
      {edited(kFp8Block, R"("fmt": "e4m3")", R"("scale_fmt": "ue8m0")"), {"scale_fmt = \"ue8m0\""}},
      {edited(kFp8Static, "ignored_layers", "ignored_layer"), {"unknown field", "quantization_config.ignored_layer", "did you mean 'ignored_layers'?"}},
      {edited(kFp8Static, R"(["lm_head"])", R"("lm_head")"), {"ignored_layers = \"lm_head\" must be a list of strings"}},
      {edited(kFp8Static, R"(["lm_head"])", R"(["lm_head"], "modules_to_not_convert": [])"), {"ignored_layers and modules_to_not_convert differ"}},
      {edited(kFp8Dynamic, R"("lm_head")", R"("re:(")"), {"quantization_config.ignored_layers: pattern \"(\"", "not closed"}},
      {edited(kFp8Dynamic, R"("lm_head")", R"("k_proj")"), {"model.layers.0: self_attn.q_proj", "multiplied together"}},
      {edited(kFbgemm, R"("modules_to_not)", R"("activation_scale_ub": 1200.0, "modules_to_not)"), {"activation_scale_ub = 1200 is not implemented"}},
      {edited(kPtpc, "dynamic", "static"), {"activation_scheme = \"static\""}},
      {edited(kModelOpt, R"("FP8")", R"("NVFP4")"), {"quant_algo = \"NVFP4\"", "\"FP8\""}},
      {edited(kModelOpt, R"("num_bits": 8)", R"("num_bits": 4)"), {"num_bits = 4"}},
  });
  std::string patterns;
  for (int i = 0; i < 40; ++i) patterns += (i == 0 ? "" : ", ") + (R"("re:)" + std::string(300, 'a') + '"');
  EXPECT_THAT(parsed(edited(kFp8Dynamic, R"("lm_head")", patterns)).refusal, HasSubstr("more than 8192 bytes of patterns"));
  EXPECT_THAT(parsed_files(std::string(R"({"quantization_config": )") + kFp8Static + R"(, "compression_config": )" + kCtStatic + "}", nullptr).refusal, HasSubstr("are both there"));
}

TEST(QuantConfig, CompressedTensorsRefusesByName) {
  const std::string weights = R"("weights": {)";
  expect_refused({
      {edited(kCtStatic, "float-quantized", "int-quantized"), {"format = \"int-quantized\"", "\"float-quantized\""}},
      {edited(kCtStatic, "float-quantized", "pack-quantized"), {"format = \"pack-quantized\""}},
      {edited(kCtDynamic, R"("weights": {"dynamic": false, "num_bits": 8)", R"("weights": {"dynamic": false, "num_bits": 4)"), {"group_0.weights.num_bits = 4", "null or 8"}},
      {edited(kCtDynamic, R"("symmetric": true, "type": "float"}}})", R"("symmetric": true, "type": "int"}}})"), {"group_0.weights.type = \"int\""}},
      {edited(kCtDynamic, R"("strategy": "channel")", R"("strategy": "group", "group_size": 128)"), {"weights.strategy = \"group\"", "weights.group_size = 128"}},
      {edited(kCtDynamic, R"("strategy": "channel", "symmetric": true)", R"("strategy": "channel", "symmetric": false)"), {"weights.symmetric = false"}},
      {edited(kCtDynamic, R"("weights": {"dynamic": false)", R"("weights": {"dynamic": true)"), {"weights.dynamic = true"}},
      {edited(kCtDynamic, R"("dynamic": true)", R"("dynamic": "local")"), {"input_activations.dynamic = \"local\""}},
      {edited(kCtDynamic, R"("dynamic": true)", R"("dynamic": false)"), {"input_activations.strategy = \"token\"", "dynamic is false"}},
      {edited(kCtBlock, "[128, 128]", "[64, 128]"), {"weights.block_structure = [64,128]"}},
      {edited(kCtBlock, R"("group_size": 128)", R"("group_size": 64)"), {"input_activations.group_size = 64"}},
      {edited(kCtBlock, R"("strategy": "group")", R"("strategy": "token")"), {"block weights, inputs per token is not implemented"}},
      {edited(kCtDynamic, R"("output_activations": null)", R"("output_activations": {"num_bits": 8})"), {"output_activations"}},
      {edited(kCtDynamic, R"("sparsity_config": {})", R"("sparsity_config": {"format": "sparse-24-bitmask"})"), {"sparsity_config"}},
      {edited(kCtDynamic, R"("transform_config": {})", R"("transform_config": {"config_groups": {}})"), {"transform_config"}},
      {edited(kCtDynamic, R"("targets": ["Linear"], )", ""), {"group_0.targets is missing"}},
      {edited(kCtDynamic, R"("quantization_status")", R"("quantisation_status")"), {"unknown field", "quantisation_status"}},
      {R"({"quant_method": "compressed-tensors", "format": "float-quantized"})", {"config_groups is missing"}},
  });
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i == 0 ? "" : ", ") + ("\"group_" + std::to_string(i)) + R"(": {"targets": []})";
  expect_refused({{R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {)" + many + "}}", {"config_groups has 65 groups", "at most 64"}}});
  EXPECT_EQ(parsed_files(std::string(R"({"compression_config": )") + kCtDynamic + "}", nullptr).refusal, "");
}

TEST(QuantConfig, QuarkRefusesByName) {
  const std::string config = quark_config(), plain = quark_layer(kQuarkTensor, kQuarkTensor, "null");
  const auto global = [&](const std::string& from, const std::string& to) { return quark_config(quark_layer(edited(kQuarkTensor, from, to), kQuarkTensor, "null"), "{}", "[]"); };
  expect_refused({
      {edited(config, R"("export")", R"("exports")"), {"quantization_config.export is missing", "quantization_config.exports"}},
      {edited(config, "real_quantized", "fake_quantized"), {"export.weight_format = \"fake_quantized\""}},
      {global("fp8_e4m3", "int8"), {"global_quant_config.weight.dtype = \"int8\"", "\"fp8_e4m3\""}},
      {global("fp8_e4m3", "fp4"), {"weight.dtype = \"fp4\""}},
      {global("per_tensor", "per_group"), {"weight.qscheme = \"per_group\""}},
      {global(R"("group_size": null)", R"("group_size": 32)"), {"weight.group_size = 32"}},
      {global(R"("is_dynamic": false)", R"("is_dynamic": true)"), {"is not implemented (only static per_tensor or per_channel weights"}},
      {quark_config(quark_layer(kQuarkTensor, edited(kQuarkTensor, "per_tensor", "per_channel"), "null"), "{}", "[]"), {"input_tensors = ", "static per_tensor"}},
      {quark_config(quark_layer(kQuarkTensor, "null", "null"), "{}", "[]"), {"weight and input_tensors must both be fp8_e4m3"}},
      {quark_config(quark_layer(kQuarkTensor, kQuarkTensor, kQuarkTensor), "{}", "[]"), {"global_quant_config.output_tensors"}},
      {edited(quark_config(plain, "{}", "[]"), R"("bias": null)", R"("bias": {"dtype": "fp8_e4m3"})"), {"global_quant_config.bias"}},
      {quark_config("null", "{}", "[]"), {"global_quant_config is missing"}},
      {edited(config, R"("algo_config": null)", R"("algo_config": [{"name": "rotation"}])"), {"algo_config"}},
      {edited(config, R"("softmax_quant_spec": null)", R"("softmax_quant_spec": {"dtype": "fp8_e4m3"})"), {"softmax_quant_spec"}},
      {edited(config, R"("*k_proj": )", R"("[k_proj": )"), {"'[' is not closed"}},
  });
  EXPECT_EQ(parsed(edited(config, R"("algo_config": null)", R"("algo_config": [{"name": "smooth", "alpha": 1}])")).refusal, "");
}

TEST(QuantMethods, ATableWithARowForEach) {
  for (const QuantMethodRow& row : quant_methods()) {
    EXPECT_EQ(quant_method_named(row.name), row.method);
    EXPECT_EQ(quant_method_name(row.method), row.name);
    EXPECT_THAT(quantization_markdown(), HasSubstr("| `" + std::string(row.name) + "` |"));
  }
  EXPECT_EQ(quant_method_named("none"), std::nullopt);
}

}  // namespace
}  // namespace quire::model::test
