// Quantised checkpoints through the whole model: written as files in every form, loaded, compared number for number in the arena and logit
// for logit with the float64 Llama; then what is refused while loading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "kit/bounds.h"
#include "kit/compare.h"
#include "kit/seed.h"
#include "kit/temp_dir.h"
#include "model/checkpoint_files.h"
#include "model/quant_configs.h"
#include "model_layers/layers_rig.h"
#include "ops/cpu_kernels.h"
#include "reference/rounding.h"

namespace quire {
namespace {

using model::LinearKind;
using test::LayersCase;
using test::LayersRig;
using test::StepRow;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Form {
  const char* name;
  std::string config;    // quantization_config; "": none
  std::string hf_quant;  // hf_quant_config.json; "": no such file
};

std::vector<Form> forms() {
  using namespace model::test;
  return {{"fp8 static", kFp8Static, ""},
          {"fp8 dynamic", kFp8Dynamic, ""},
          {"fp8 block", kFp8Block, ""},
          {"compressed-tensors static", kCtStatic, ""},
          {"compressed-tensors dynamic", kCtDynamic, ""},
          {"compressed-tensors block", kCtBlock, ""},
          {"compressed-tensors weights alone", kCtWeightOnly, ""},
          {"quark", quark_config(), ""},
          {"modelopt", kModelOpt, ""},
          {"modelopt beside", "", kHfQuantConfig},
          {"fbgemm_fp8", kFbgemm, ""},
          {"ptpc_fp8", kPtpc, ""}};
}

// Blocks of 128 are cut off in every direction: hidden 136, intermediate 160.
model::ModelSpec plain_spec() {
  model::ModelSpec spec = test::small_spec(2, 8);
  spec.hidden_size = 136;
  spec.intermediate_size = 160;
  return spec;
}

std::string config_text(const Form& form) {
  const model::ModelSpec s = plain_spec();
  const auto field = [](const char* name, std::int64_t value) { return std::string(", \"") + name + "\": " + std::to_string(value); };
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", "rms_norm_eps": 1e-5)" + field("hidden_size", s.hidden_size) +
         field("intermediate_size", s.intermediate_size) + field("num_hidden_layers", s.num_layers) + field("num_attention_heads", s.num_heads) + field("num_key_value_heads", s.num_kv_heads) +
         field("head_dim", s.head_dim) + field("vocab_size", s.vocab_size) + field("max_position_embeddings", s.max_position_embeddings) +
         (form.config.empty() ? std::string() : ", \"quantization_config\": " + form.config) + "}";
}

// The file's tensor of a parameter. Scales in turn as [], [1] or [n, 1], float32 or bfloat16.
model::test::RawTensor file_tensor(const model::ParameterSpec& p, std::size_t turn) {
  test::RandomWeights source(DType::kF32);
  const auto raw = source.read(p).value();
  std::string bytes(reinterpret_cast<const char*>(raw.bytes.data()), raw.bytes.size());
  const bool scale = p.kind == model::ParameterKind::kWeightScale || p.kind == model::ParameterKind::kInputScale;
  if (!scale) return {p.name, p.kind == model::ParameterKind::kFp8 ? "F8_E4M3" : "F32", p.shape, bytes};
  std::vector<std::int64_t> shape = p.shape;
  if (p.shape.size() < 2 && turn % 2 == 1) shape.push_back(1);
  if (turn % 3 == 0) return {p.name, "BF16", shape, bytes};
  std::string wide;  // bfloat16 is the upper half of float32
  for (std::size_t i = 0; i < bytes.size(); i += 2) wide += std::string(2, '\0') + bytes.substr(i, 2);
  return {p.name, "F32", shape, wide};
}

using Edit = std::function<void(std::vector<model::test::RawTensor>&)>;

// A checkpoint of a form, read as serve reads it.
class Folder {
 public:
  explicit Folder(const Form& form, const Edit& edit = [](auto&) {}) {
    (void)dir_.write("config.json", config_text(form));
    if (!form.hf_quant.empty()) (void)dir_.write("hf_quant_config.json", form.hf_quant);
    auto read = model::read_model_spec(dir_.path());
    QUIRE_CHECK(read.ok()) << form.name << ": " << read.error().message;
    spec_ = std::move(read).value();
    std::vector<model::test::RawTensor> tensors;
    for (const auto& p : model::parameters_of(spec_)) tensors.push_back(file_tensor(p, tensors.size()));
    edit(tensors);
    (void)dir_.write("model.safetensors", model::test::safetensors_of(tensors));
  }
  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  [[nodiscard]] std::unique_ptr<model::WeightSource> open() const {
    auto source = model::open_checkpoint_weights(dir_.path(), spec_, {});
    QUIRE_CHECK(source.ok()) << source.error().message;
    return std::move(source).value();
  }
  // "": it loads.
  [[nodiscard]] std::string refusal(bool fnuz = false) const {
    device::CpuDevice device(1, ops::cpu_kernels());
    model::LoadProgress progress;
    const auto source = open();
    const auto got = model::Weights::load(device, spec_, {DType::kF32, 64, fnuz}, *source, progress);
    EXPECT_TRUE(got.ok() || device.allocated_bytes() == 0) << "a refused load keeps nothing";
    return got.ok() ? "" : got.error().message;
  }

 private:
  test::TempDir dir_;
  model::ModelSpec spec_;
};

// What the arena's matrix stands for, [n, k].
reference::Matrix numbers_of(const ops::Weight& w) {
  const DType dtype = ops::storage_dtype(w.format);
  const std::size_t bytes = dtype_bytes(dtype);
  reference::Matrix out(w.n, w.k);
  for (std::int64_t r = 0; r < w.n; ++r)
    for (std::int64_t c = 0; c < w.k; ++c) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, static_cast<const std::byte*>(w.packed) + static_cast<std::size_t>((r / 64 * w.k + c) * 64 + r % 64) * bytes, bytes);
      const double scale = w.scales == nullptr ? 1.0 : static_cast<double>(w.scales[c / w.scale_group * ((w.n + 63) / 64 * 64) + r]);
      out.at(r, c) = reference::decode(dtype, bits) * scale;
    }
  return out;
}

// Parts of a layer's four matrices, in the order of LinearKind.
struct Part {
  const ops::Weight& weight;
  int part;
};
std::vector<Part> parts_of(const model::LayerWeights& l) { return {{l.qkv, 0}, {l.qkv, 1}, {l.qkv, 2}, {l.o, 0}, {l.gate_up, 0}, {l.gate_up, 1}, {l.down, 0}}; }

// Every number of every matrix, and every static input scale.
void expect_numbers(const model::Weights& weights, const model::ModelSpec& spec, bool fnuz) {
  const DType fp8 = fnuz ? DType::kFp8E4m3Fnuz : DType::kFp8E4m3;
  for (std::int32_t layer = 0; layer < spec.num_layers; ++layer) {
    const auto parts = parts_of(weights.layers()[static_cast<std::size_t>(layer)]);
    for (std::size_t i = 0; i < model::kNumLinears; ++i) {
      const auto& [w, part] = parts[i];
      const std::string name = "model.layers." + std::to_string(layer) + "." + std::string(model::kLinearNames[i]) + ".";
      const model::LinearScheme scheme = spec.quant.scheme_of(layer, static_cast<LinearKind>(i));
      EXPECT_EQ(ops::storage_dtype(w.format), scheme.weight == model::WeightScaling::kNone ? DType::kF32 : fp8) << name;
      const std::int64_t first = w.first_rows[static_cast<std::size_t>(part)];
      const reference::Matrix want = test::random_weight(spec, name, DType::kF32, fp8), got = numbers_of(w);
      ASSERT_EQ(w.end_row(part) - first, want.rows) << name;
      for (std::int64_t r = 0; r < want.rows; ++r) ASSERT_TRUE(std::ranges::equal(want.row(r), got.row(first + r))) << name << ", row " << r;
      if (scheme.input != model::InputScaling::kStatic) continue;
      const double scale = test::random_parameter({name + "input_scale", {}, model::ParameterKind::kInputScale}, DType::kF32).values[0] * (fnuz ? 2.0 : 1.0);
      EXPECT_EQ(w.input.scales[static_cast<std::size_t>(w.input.copy_of(part))], scale) << name;
      EXPECT_EQ(w.input.num_scales, w.num_parts) << "scales differ, and stay apart";
    }
  }
}

TEST(QuantisedWeights, EveryNumberOfEveryForm) {
  for (const Form& form : forms())
    for (const bool fnuz : {false, true}) {
      SCOPED_TRACE(std::string(form.name) + (fnuz ? ", FNUZ" : ""));
      const Folder folder(form);
      device::CpuDevice device(1, ops::cpu_kernels());
      model::LoadProgress progress;
      const model::WeightsOptions options{DType::kF32, 64, fnuz};
      const auto source = folder.open();
      const auto weights = model::Weights::load(device, folder.spec(), options, *source, progress);
      ASSERT_TRUE(weights.ok()) << weights.error().message;
      EXPECT_EQ(device.allocated_bytes(), model::Weights::arena_bytes(folder.spec(), options));
      EXPECT_EQ(progress.parameters_done, static_cast<std::int64_t>(model::parameters_of(folder.spec()).size()));
      expect_numbers(weights.value(), folder.spec(), fnuz);
    }
}

TEST(QuantisedWeights, EqualInputScalesAreOne) {
  const Folder folder({"static", model::test::kFp8Static, ""}, [](auto& tensors) {
    for (auto& t : tensors)
      if (t.name.ends_with("input_scale")) t = model::test::counting_tensor(t.name, {1}, 0.25f);
  });
  device::CpuDevice device(1, ops::cpu_kernels());
  model::LoadProgress progress;
  const auto source = folder.open();
  const auto weights = model::Weights::load(device, folder.spec(), {DType::kF32, 64}, *source, progress).value();
  for (const auto& [w, part] : parts_of(weights.layers()[1])) {
    EXPECT_EQ(w.input.num_scales, 1);
    EXPECT_EQ(w.input.scales[0], 0.25f);
  }
}

model::ModelSpec quantised_while_loading(model::WeightScaling scaling) {
  model::ModelSpec spec = plain_spec();
  spec.quant.method = model::QuantMethod::kFp8;
  spec.quant.on_load = true;
  model::LayerSchemes all;
  all.fill({scaling, model::InputScaling::kPerToken});
  spec.quant.layers.assign(static_cast<std::size_t>(spec.num_layers), all);
  return spec;
}

constexpr std::pair<model::WeightScaling, bool> kOnLoad[] = {
    {model::WeightScaling::kTensor, false}, {model::WeightScaling::kTensor, true}, {model::WeightScaling::kChannel, false}, {model::WeightScaling::kChannel, true}};  // scaling, FNUZ

TEST(QuantisedWeights, QuantisedWhileLoadingPartByPart) {
  for (const auto& [scaling, fnuz] : kOnLoad) {
    const model::ModelSpec spec = quantised_while_loading(scaling);
    device::CpuDevice device(1, ops::cpu_kernels());
    model::LoadProgress progress;
    test::RandomWeights source(DType::kF32);
    const model::WeightsOptions options{DType::kF32, 64, fnuz};
    const auto weights = model::Weights::load(device, spec, options, source, progress).value();
    EXPECT_EQ(device.allocated_bytes(), model::Weights::arena_bytes(spec, options));
    expect_numbers(weights, spec, fnuz);
    for (const auto& p : model::parameters_of(spec)) EXPECT_EQ(source.reads[p.name], 1) << p.name;
  }
}

// --- logits ---

constexpr std::size_t kSequences = 6;
constexpr std::int32_t kLength = 4;

// Rounding in float32, as in forward_test.
double bound_of(const model::ModelSpec& spec, const reference::Matrix& want) {
  double largest = 0.0;
  for (const double v : want.values) largest = std::max(largest, std::fabs(v));
  const std::int64_t layer = 3 * spec.hidden_size + spec.num_heads * spec.head_dim + spec.intermediate_size + spec.head_dim + 64 + 40;
  return test::gamma(spec.num_layers * layer + spec.hidden_size, DType::kF32) * largest;
}

// In how many sequences every logit is that of the float64 Llama, which quantises the same inputs. A float32 rounding can put an input on the
// other side of an FP8 border, and then many after it: such a sequence is as far off as FP8 is coarse. It happens to a few in a hundred.
std::size_t num_equal(const LayersCase& c, model::WeightSource* source) {
  auto rng = test::seeded_rng();
  std::vector<std::vector<TokenId>> sequences(kSequences, std::vector<TokenId>(kLength));
  for (auto& s : sequences)
    for (TokenId& t : s) t = static_cast<TokenId>(rng() % static_cast<std::uint64_t>(c.spec.vocab_size));
  LayersRig rig(c, sequences, source);
  const reference::LlamaReference reference = test::reference_of(c);
  std::size_t equal = 0;
  double used = 0.0;
  for (std::size_t i = 0; i < kSequences; ++i) {
    std::vector<double> got;
    for (const StepRow& row : {StepRow{i, 0, 1}, {i, 1, 2}, {i, 3, 1}}) {
      const auto part = test::widen(std::span<const float>(rig.eager({row})));
      got.insert(got.end(), part.begin(), part.end());
    }
    const reference::Matrix want = reference.logits(sequences[i]);
    const auto cmp = test::compare(got, want.values, bound_of(c.spec, want));
    equal += cmp.equal ? 1 : 0;
    used = std::max(used, cmp.equal ? cmp.used : 0.0);
  }
  std::printf("%zu of %zu sequences, at most %.3f of the bound\n", equal, kSequences, used);
  return equal;
}

bool quantises_inputs(const model::ModelSpec& spec) { return spec.quant.scheme_of(1, LinearKind::kQ).input != model::InputScaling::kNone; }

TEST(QuantisedForward, EveryFormGivesTheReferencesLogits) {
  for (const Form& form : forms())
    for (const bool fnuz : {false, true}) {
      SCOPED_TRACE(std::string(form.name) + (fnuz ? ", FNUZ" : ""));
      const Folder folder(form);
      const auto source = folder.open();
      EXPECT_GE(num_equal({.spec = folder.spec(), .fp8_fnuz = fnuz}, source.get()), quantises_inputs(folder.spec()) ? kSequences / 2 : kSequences);
    }
}

TEST(QuantisedForward, QuantisedWhileLoading) {
  for (const auto& [scaling, fnuz] : kOnLoad)
    for (const DType dtype : {DType::kF32, DType::kBF16}) EXPECT_GE(num_equal({.spec = quantised_while_loading(scaling), .dtype = dtype, .fp8_fnuz = fnuz}, nullptr), kSequences / 2);
}

// The tests above can fail: a scale of another part spoils every sequence.
TEST(QuantisedForward, AnotherPartsScaleIsSeen) {
  const auto wrong_by = [](const char* config, const std::string& a, const std::string& b) {
    const Folder folder({"wrong", config, ""}, [&](auto& tensors) {
      const auto find = [&](const std::string& name) { return std::ranges::find(tensors, "model.layers.1." + name, &model::test::RawTensor::name); };
      std::swap(find(a)->dtype, find(b)->dtype);
      std::swap(find(a)->shape, find(b)->shape);
      std::swap(find(a)->bytes, find(b)->bytes);
    });
    const auto source = folder.open();
    return num_equal({.spec = folder.spec()}, source.get());
  };
  EXPECT_EQ(wrong_by(model::test::kFp8Static, "mlp.gate_proj.weight_scale", "mlp.up_proj.weight_scale"), 0u);
  EXPECT_EQ(wrong_by(model::test::kFp8Static, "self_attn.q_proj.input_scale", "self_attn.v_proj.input_scale"), 0u);
  EXPECT_EQ(wrong_by(model::test::kPtpc, "self_attn.k_proj.weight_scale", "self_attn.v_proj.weight_scale"), 0u);
}

// Chunks, neighbours, padding, graphs and threads change no bit.
TEST(QuantisedForward, ReplayEqualsEagerBitForBit) {
  const std::vector<std::vector<StepRow>> steps = {{{0, 0, 1}, {1, 0, 17}}, {{1, 17, 1}, {0, 1, 30}}, {{0, 31, 1}}};
  for (const Form& form : forms()) {
    SCOPED_TRACE(form.name);
    const Folder folder(form);
    LayersCase c{.spec = folder.spec(), .dtype = DType::kBF16, .kv_dtype = DType::kFp8E4m3};
    const std::vector<std::vector<TokenId>> sequences = {std::vector<TokenId>(32, 7), std::vector<TokenId>(18, 11)};
    const auto a = folder.open(), b = folder.open();
    LayersRig eager(c, sequences, a.get());
    c.threads = 3;
    LayersRig recorded(c, sequences, b.get());
    device::Graph graph;
    recorded.record(graph);
    for (const auto& step : steps) {
      const auto cmp = test::compare_bits(recorded.replay(graph, step), eager.eager(step));
      EXPECT_TRUE(cmp.equal) << cmp.report;
    }
  }
}

// --- refusals while loading ---

TEST(QuantisedLoading, BadScalesAreRefusedByName) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string name = "model.layers.1.self_attn.k_proj.";
  for (const char* scale : {"weight_scale", "input_scale"})
    for (const auto& [value, word] : std::vector<std::pair<float, const char*>>{{0.0f, "element 0 is 0, and a scale is finite and above 0"},
                                                                              {-0.0f, "element 0 is 0, and"},
                                                                              {-0.5f, "element 0 is -0.5"},
                                                                              {std::numeric_limits<float>::quiet_NaN(), "holds NaN or infinity, first at element 0"},
                                                                              {kInfinity, "holds NaN or infinity"},
                                                                              {1e-40f, "and a scale is from"},
                                                                              {1e38f, "and a scale is from"}}) {
      const Folder folder({"static", model::test::kFp8Static, ""}, [&](auto& tensors) { *std::ranges::find(tensors, name + scale, &model::test::RawTensor::name) = model::test::counting_tensor(name + scale, {}, value); });
      EXPECT_THAT(folder.refusal(), AllOf(HasSubstr(name + scale), HasSubstr(word))) << value;
    }
  const std::string channel = "model.layers.0.mlp.up_proj.weight_scale";
  const Folder folder({"channel", model::test::kPtpc, ""}, [&](auto& tensors) {
    auto& t = *std::ranges::find(tensors, channel, &model::test::RawTensor::name);
    t = model::test::counting_tensor(channel, {160}, -17.0f);
  });
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr(channel), HasSubstr("element 0 is -17")));
  const Folder largest({"channel", model::test::kPtpc, ""}, [&](auto& tensors) {
    for (auto& t : tensors)
      if (t.name == channel) t = {channel, "BF16", {160}, [] { std::string s; for (int i = 0; i < 160; ++i) s += std::string("\xe0\x7a", 2); return s; }()};
  });  // 5.8e35, twice that is too much
  EXPECT_EQ(largest.refusal(), "");
  EXPECT_THAT(largest.refusal(true), HasSubstr("twice that for FNUZ"));
}

TEST(QuantisedLoading, NanBytesAreRefusedByPlace) {
  const std::string name = "model.layers.0.mlp.gate_proj.weight";
  const Folder folder({"dynamic", model::test::kFp8Dynamic, ""}, [&](auto& tensors) { std::ranges::find(tensors, name, &model::test::RawTensor::name)->bytes[137] = '\x7f'; });
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr(name), HasSubstr("element 137")));
}

}  // namespace
}  // namespace quire
