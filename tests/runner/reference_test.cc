// The engine's log-probabilities against the float64 reference, on the real model: float32 within 1e-4, 16-bit within what rounding the
// cache explains.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kit/model_bench.h"
#include "reference/llama.h"
#include "reference/logprobs.h"

namespace quire {
namespace {

const std::string kModel = QUIRE_SOURCE_DIR "/models/gsm-tiny";

// Weights of the checkpoint as float64, rounded to the served dtype: bfloat16 values are exact in float32 and bfloat16; small ones lose bits
// in float16.
reference::LlamaReference reference_of(const model::ModelSpec& spec, DType dtype) {
  const std::optional<DType> kv = dtype == DType::kF32 ? std::nullopt : std::optional(dtype);
  auto source = model::open_checkpoint_weights(kModel, spec, {}).value();
  const auto parameters = model::parameters_of(spec);
  const auto load = [&](const std::string& name) {
    const auto p = std::find_if(parameters.begin(), parameters.end(), [&](const auto& x) { return x.name == name; });
    const auto raw = source->read(*p).value();
    const std::int64_t columns = p->shape.back(), rows = p->shape.size() == 2 ? p->shape[0] : 1;
    reference::Matrix m(rows, columns);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      BFloat16 b;
      std::memcpy(&b, raw.bytes.data() + i * 2, 2);
      const float w = to_float(b);
      m.at(i / columns, i % columns) = static_cast<double>(dtype == DType::kF16 && p->shape.size() == 2 ? to_float(to_float16(w)) : w);
    }
    return m;
  };
  return reference::LlamaReference(spec, load, {.max_model_len = 1024, .angles = reference::AnglePrecision::kFloat32, .kv_dtype = kv});
}

struct Case {
  DType dtype;
  double bound;  // on a log-probability
};

class AgainstReference : public ::testing::TestWithParam<Case> {};

// Prompts of several lengths at once, each token scored, in chunks of 96.
TEST_P(AgainstReference, PromptLogProbabilities) {
  const auto [dtype, bound] = GetParam();
  test::ModelBenchOptions o{.model_dir = kModel, .dtype = dtype, .num_threads = 2};
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 96, .max_num_seqs = 8, .max_model_len = 1024, .num_blocks = 256};
  test::ModelBench bench(o);
  const auto reference = reference_of(bench.spec, dtype);
  const auto specs = test::scored_sequences(static_cast<std::int32_t>(bench.spec.vocab_size), {2, 15, 16, 17, 63, 65, 130, 600});
  Scheduler scheduler(o.scheduler);
  const auto run = test::run_all(*bench.runner, scheduler, specs, 1);
  double worst = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& f = run.sequences[i];
    ASSERT_EQ(f.error, "");
    std::vector<TokenId> all = specs[i].prompt;
    all.insert(all.end(), f.tokens.begin(), f.tokens.end());
    const auto logits = reference.logits(all);
    ASSERT_EQ(f.prompt_logprobs.size(), specs[i].prompt.size() - 1);
    ASSERT_EQ(f.tokens.size(), 3u);
    for (std::size_t p = 1; p < all.size(); ++p) {
      const auto want = reference::log_softmax(logits.row(static_cast<std::int64_t>(p) - 1));
      const bool prompt = p < specs[i].prompt.size();
      const float got = prompt ? f.prompt_logprobs[p - 1].logprob : f.logprobs[p - specs[i].prompt.size()];
      if (prompt) {
        ASSERT_EQ(f.prompt_logprobs[p - 1].token, all[p]);
      }
      const double error = std::abs(static_cast<double>(got) - want[static_cast<std::size_t>(all[p])]);
      worst = std::max(worst, error);
      ASSERT_LE(error, bound) << "sequence of " << specs[i].prompt.size() << ", position " << p;
    }
  }
  RecordProperty("worst_error", std::to_string(worst));
  std::printf("worst log-probability error in %s: %.3g (bound %.3g)\n", dtype_name(dtype), worst, bound);
}

// float32: the bound. 16-bit: a cached element is off by at most u = 2^-9 (bfloat16) or 2^-12 (float16) relative on both sides of
// the comparison only where rounding lands on different sides of a midpoint, so the same small bound scaled by u / 2^-24 would be far too
// loose; what is left is the flip of single roundings, each worth one unit in the last place of one cached element.
INSTANTIATE_TEST_SUITE_P(DTypes, AgainstReference, ::testing::Values(Case{DType::kF32, 1e-4}, Case{DType::kBF16, 2e-2}, Case{DType::kF16, 2e-3}),
                         [](const auto& p) { return std::string(dtype_name(p.param.dtype)); });

}  // namespace
}  // namespace quire
