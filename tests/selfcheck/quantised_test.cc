// The self-check on quantised models: everything passes with every scheme in both encodings; kernels that quantise or scale wrongly are found,
// by the verdict that names the operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ops/cpu_kernels.h"
#include "ops/params.h"
#include "selfcheck/check_kit.h"

namespace quire::test {
namespace {

using device::KernelId;
using model::InputScaling;
using model::LinearScheme;
using model::WeightScaling;
using selfcheck::Report;

// Parts and inputs are no multiples of 128 or of a panel.
ModelBenchOptions dummy(const LinearScheme& scheme, const std::string& mode) {
  model::ModelSpec s;
  s.architecture = "LlamaForCausalLM";
  s.model_type = "llama";
  s.hidden_size = 200;
  s.intermediate_size = 330;
  s.num_layers = 2;
  s.num_heads = 4;
  s.num_kv_heads = 2;
  s.head_dim = 32;
  s.vocab_size = 300;
  s.max_position_embeddings = 512;
  s.quant.method = model::QuantMethod::kFp8;
  s.quant.layers.resize(2);
  for (model::LayerSchemes& layer : s.quant.layers) layer.fill(scheme);
  ModelBenchOptions o;
  o.dummy = s;
  o.backend = "CPU_SPLIT";
  o.graph_mode = mode;
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 128, .max_num_seqs = 8, .max_model_len = 256, .num_blocks = 120};
  return o;
}


constexpr LinearScheme kStatic{WeightScaling::kTensor, InputScaling::kStatic}, kPerToken{WeightScaling::kChannel, InputScaling::kPerToken}, kBlocks{WeightScaling::kBlock, InputScaling::kPerGroup},
    kWeightOnly{WeightScaling::kChannel, InputScaling::kNone};

TEST(SelfCheckFp8, EverySchemePassesAndItsOperationsAreLookedAt) {
  for (const LinearScheme& scheme : {kStatic, kPerToken, kBlocks, kWeightOnly})
    for (const char* mode : {"NONE", "FULL_AND_PIECEWISE"}) {
      const Report r = checked(dummy(scheme, mode));
      EXPECT_TRUE(r.passed()) << scheme_text(scheme) << " " << mode << ": " << r.failure();
      const std::set<std::string> seen = checks(r, true);
      EXPECT_TRUE(seen.contains("linear (down)") && seen.contains("linear (lm_head)"));
      const bool quantised = scheme.input != InputScaling::kNone;
      for (const char* check : {"quantised input (qkv)", "linear (qkv)", "quantised input (down)"}) EXPECT_EQ(seen.contains(check), quantised) << check << ", " << scheme_text(scheme) << " " << mode;
    }
}

TEST(SelfCheckFp8, EverySchemePassesInTheOtherEncoding) {
  for (const LinearScheme& scheme : {kStatic, kBlocks}) {
    ModelBenchOptions o = dummy(scheme, "NONE");
    o.fp8_fnuz = true;
    const Report r = checked(o);
    EXPECT_TRUE(r.passed()) << scheme_text(scheme) << ": " << r.failure();
  }
}

// One part's input scale is used for all of them (#20295's checkpoints fuse q, k and v with scales of their own).
void linear_with_the_first_parts_input(const void* params, std::int64_t begin, std::int64_t end) {
  ops::LinearFp8Params p = *static_cast<const ops::LinearFp8Params*>(params);
  p.input.num_scales = std::min(p.input.num_scales, 1);
  ops::cpu_linear_e4m3(&p, begin, end);
}
// The weight's scales of the first 128 inputs are used for all.
void linear_with_the_first_group(const void* params, std::int64_t begin, std::int64_t end) {
  ops::LinearFp8Params p = *static_cast<const ops::LinearFp8Params*>(params);
  p.w_groups = 1;
  ops::cpu_linear_e4m3(&p, begin, end);
}
// A norm quantises with a scale that is not the one that the linear multiplies by.
void norm_with_another_scale(const void* params, std::int64_t begin, std::int64_t end) {
  ops::RmsNormParams p = *static_cast<const ops::RmsNormParams*>(params);
  for (float& s : p.out.quant.scales) s *= 1.0625f;
  ops::cpu_add_rms_norm(&p, begin, end);
}
// Rows share the scale of the first row of their unit.
void silu_with_a_neighbours_scale(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::GatedMulParams*>(params);
  ops::cpu_silu_mul(params, begin, end);
  for (std::int64_t row = begin + 1; row < end && p.out.scales != nullptr; ++row) p.out.scales[row] = p.out.scales[begin];
}

TEST(SelfCheckFp8, WrongScalesAreFoundByTheOperationThatUsesThem) {
  const std::pair<Mistake, LinearScheme> mistakes[] = {
      {{"input scale of the first part", KernelId::kLinearE4m3, linear_with_the_first_parts_input, "linear (qkv)"}, kStatic},
      {{"weight scales of the first group", KernelId::kLinearE4m3, linear_with_the_first_group, "linear (down)"}, kBlocks},
      {{"norm quantises by another scale", KernelId::kAddRmsNorm, norm_with_another_scale, "quantised input (qkv)"}, kStatic},
      {{"activation's scale of another row", KernelId::kSiluMul, silu_with_a_neighbours_scale, "quantised input (down)"}, kPerToken},
  };
  for (const auto& [mistake, scheme] : mistakes) expect_found(mistake, dummy(scheme, "NONE"));
}

}  // namespace
}  // namespace quire::test
