// The self-check on every family: everything passes in every mode and with an FP8 cache; kernels that leave a family's own step out are
// found, by the verdict that names the operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "kit/family_specs.h"
#include "kit/model_bench.h"
#include "ops/cpu_kernels.h"
#include "ops/params.h"
#include "selfcheck/check_kit.h"

namespace quire::test {
namespace {

using device::KernelId;

ModelBenchOptions dummy(std::string_view architecture, const std::string& mode) {
  ModelBenchOptions o;
  o.dummy = family_spec(architecture);
  o.dtype = DType::kBF16;
  o.backend = "CPU_SPLIT";
  o.graph_mode = mode;
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 256, .max_num_seqs = 16, .max_model_len = 512, .num_blocks = 120};
  return o;
}

TEST(SelfCheckFamilies, EveryModeAndRowPasses) {
  for (const FamilyCase& family : family_cases())
    for (const char* backend : {"CPU_UNIFIED", "CPU_SPLIT"})
      for (const char* mode : {"NONE", "FULL_AND_PIECEWISE"}) {
        ModelBenchOptions o = dummy(family.architecture, mode);
        o.backend = backend;
        const selfcheck::Report r = checked(o);
        EXPECT_TRUE(r.passed()) << family.architecture << " " << backend << " " << mode << "\n" << failures(r);
      }
}

TEST(SelfCheckFamilies, WithAnFp8Cache) {
  for (const FamilyCase& family : family_cases())
    for (const DType kv : {DType::kFp8E4m3, DType::kFp8E5m2}) {
      ModelBenchOptions o = dummy(family.architecture, "FULL");
      o.kv_dtype = kv;
      const selfcheck::Report r = checked(o);
      EXPECT_TRUE(r.passed()) << family.architecture << " " << dtype_name(kv) << "\n" << failures(r);
    }
}

void rope_without_norms(const void* params, std::int64_t begin, std::int64_t end) {
  ops::RopeKvWriteParams p = *static_cast<const ops::RopeKvWriteParams*>(params);
  p.q_norm = p.k_norm = nullptr;
  ops::cpu_rope_kv_write_bf16(&p, begin, end);
}
// Keys are normed by the weights of the queries.
void rope_with_the_queries_norm(const void* params, std::int64_t begin, std::int64_t end) {
  ops::RopeKvWriteParams p = *static_cast<const ops::RopeKvWriteParams*>(params);
  p.k_norm = p.q_norm;
  ops::cpu_rope_kv_write_bf16(&p, begin, end);
}
// Every layer turns by the first layer's table.
void rope_of_the_first_layer(const void* params, std::int64_t begin, std::int64_t end) {
  static const float* first = nullptr;
  ops::RopeKvWriteParams p = *static_cast<const ops::RopeKvWriteParams*>(params);
  if (first == nullptr) first = p.cos_sin;
  p.cos_sin = first;
  ops::cpu_rope_kv_write_bf16(&p, begin, end);
}
void no_cap(const void*, std::int64_t, std::int64_t) {}

struct Mistake {
  const char* name;
  const char* architecture;
  KernelId kernel;
  void (*wrong)(const void*, std::int64_t, std::int64_t);
  const char* check;
};

TEST(SelfCheckFamilies, AStepThatIsLeftOutIsFound) {
  const Mistake mistakes[] = {
      {"q and k are not normed", "Qwen3ForCausalLM", KernelId::kRopeKvWriteBF16, rope_without_norms, "rope"},
      {"k is normed as q", "Qwen3ForCausalLM", KernelId::kRopeKvWriteBF16, rope_with_the_queries_norm, "key write"},
      {"one rope for all layers", "Gemma3ForCausalLM", KernelId::kRopeKvWriteBF16, rope_of_the_first_layer, "rope"},
      {"SiLU for GELU", "Gemma2ForCausalLM", KernelId::kGeluTanhMul, ops::cpu_silu_mul, "gelu_tanh_mul"},
      {"logits are not capped", "Gemma2ForCausalLM", KernelId::kSoftCap, no_cap, "linear (lm_head)"},
  };
  for (const Mistake& m : mistakes) {
    ModelBenchOptions o = dummy(m.architecture, "NONE");
    if (o.dummy->final_soft_cap > 0.0) o.dummy->final_soft_cap = 0.05;  // dummy weights give small logits
    o.kernels = all_cpu_kernels();
    for (device::CpuKernel& k : o.kernels)
      if (k.id == m.kernel) k.run = m.wrong;
    const selfcheck::Report r = checked(o);
    EXPECT_FALSE(r.passed()) << m.name;
    std::set<std::string> found;
    for (const selfcheck::Verdict& v : r.verdicts)
      if (!v.passed) found.insert(v.check);
    EXPECT_TRUE(found.contains(m.check)) << m.name << "\n" << failures(r);
  }
}

}  // namespace
}  // namespace quire::test
