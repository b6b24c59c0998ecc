// The self-check on quantised GGUF weights that stay in their blocks: everything passes with types mixed in one projection, also where more rows want
// logits than are looked at; kernels that quantise or multiply wrongly are found, by the verdict that names the operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kit/gguf_model.h"
#include "kit/model_bench.h"
#include "kit/temp_dir.h"
#include "ops/cpu_kernels.h"
#include "ops/params.h"
#include "selfcheck/check_kit.h"

namespace quire::test {
namespace {

using device::KernelId;
using selfcheck::Report;

// q, k and v of three types, one of them with offsets and one with two groups of 16 to a scale of the input.
std::string type_of(const std::string& matrix) {
  if (matrix.ends_with("attn_q.weight")) return "Q4_1";
  if (matrix.ends_with("attn_k.weight")) return "Q6_K";
  if (matrix.ends_with("attn_v.weight") || matrix.starts_with("token_embd")) return "Q8_0";
  return "Q4_0";
}

class SelfCheckCoded : public ::testing::Test {
 protected:
  ModelBenchOptions options(const std::string& mode) {
    GgufModel model = gguf_model(QUIRE_SOURCE_DIR "/models/gsm-tiny", "Q4_0");
    model.type_of = type_of;
    ModelBenchOptions o{.model_dir = dir_.write("m.gguf", gguf_file_of(model)), .dtype = DType::kBF16, .gguf = model::GgufWeights::kBlocks};
    o.graph_mode = mode;
    o.scheduler = SchedulerConfig{.max_num_batched_tokens = 128, .max_num_seqs = 16, .max_model_len = 256, .num_blocks = 200};
    return o;
  }
  TempDir dir_;
};


TEST_F(SelfCheckCoded, TypesMixedInAProjectionPassAndTheirOperationsAreLookedAt) {
  for (const char* mode : {"NONE", "FULL_AND_PIECEWISE"}) {
    const Report r = checked(options(mode));
    EXPECT_TRUE(r.passed()) << mode << ": " << failures(r);
    for (const char* check : {"quantised input (qkv)", "linear (qkv)", "quantised input (lm_head)", "linear (lm_head)"}) EXPECT_TRUE(checks(r, true).contains(check)) << check << ", " << mode;
  }
}

// k is computed from q's codes.
void linear_with_the_first_parts_codes(const void* params, std::int64_t begin, std::int64_t end) {
  ops::LinearCodedParams p = *static_cast<const ops::LinearCodedParams*>(params);
  if (p.num_parts == 3) p.parts[1] = p.parts[0];
  ops::cpu_linear_coded(&p, begin, end);
}
// The sums beside a row's numbers are those of other numbers. Offsets, and codes that are stored less their least one, read them.
void spoil_sums(const ops::QuantiseOut& out, std::int64_t columns, std::int64_t begin, std::int64_t end) {
  const std::int64_t floats = out.quant.row_floats(columns);
  for (std::int64_t row = begin; row < end; ++row) out.scales[row * floats + out.quant.row_scales(columns)] += 64.0f;
}
void norm_with_other_sums(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::RmsNormParams*>(params);
  ops::cpu_add_rms_norm(params, begin, end);
  if (p.out.values != nullptr) spoil_sums(p.out, p.n, begin, end);
}
void quantise_with_other_sums(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::QuantiseParams*>(params);
  ops::cpu_quantise(params, begin, end);
  spoil_sums(p.out, p.n, begin, end);
}
void norm_with_another_scale(const void* params, std::int64_t begin, std::int64_t end) {
  const auto& p = *static_cast<const ops::RmsNormParams*>(params);
  ops::cpu_add_rms_norm(params, begin, end);
  if (p.out.values == nullptr) return;
  for (std::int64_t row = begin; row < end; ++row) p.out.scales[row * p.out.quant.row_floats(p.n)] *= 1.0625f;
}

TEST_F(SelfCheckCoded, MistakesAreFoundByTheOperationThatMakesThem) {
  const Mistake mistakes[] = {
      {"codes of the first part", KernelId::kLinearCoded, linear_with_the_first_parts_codes, "linear (qkv)"},
      {"sums of other numbers, by a norm", KernelId::kAddRmsNorm, norm_with_other_sums, "linear (qkv)"},
      {"sums of other numbers, before the head", KernelId::kQuantise, quantise_with_other_sums, "linear (lm_head)"},
      {"norm quantises by another scale", KernelId::kAddRmsNorm, norm_with_another_scale, "quantised input (qkv)"},
  };
  for (const Mistake& m : mistakes) expect_found(m, options("NONE"));
}

}  // namespace
}  // namespace quire::test
