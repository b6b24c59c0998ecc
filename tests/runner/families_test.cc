// Every family through scheduler, runner and graphs: the bits of a request do not depend on chunks, on the attention row, on threads, on how
// a step is launched, or on a prefix that was cached.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kit/compare.h"
#include "kit/family_specs.h"
#include "kit/model_bench.h"

namespace quire {
namespace {

struct Way {
  std::string backend = "CPU_UNIFIED", graph_mode = "NONE";
  int threads = 1;
  std::int32_t budget = 512, depth = 1;
  bool twice = false;  // the second run finds its prefixes cached
};

std::vector<SequenceSpec> prompts(const model::ModelSpec& spec, std::uint64_t first_id) {
  std::mt19937_64 rng(41);
  std::vector<SequenceSpec> out;
  for (const std::size_t length : {std::size_t{1}, std::size_t{35}, std::size_t{150}}) {
    SequenceSpec s;
    s.id = RequestId{first_id + out.size()};
    for (std::size_t i = 0; i < length; ++i) s.prompt.push_back(static_cast<TokenId>(rng() % static_cast<std::uint64_t>(spec.vocab_size)));
    SamplingParams p{.temperature = out.size() == 1 ? 0.9 : 0.0, .max_tokens = 30};
    p.seed = 5 + out.size();
    p.ignore_eos = true;
    p.logprobs = 3;
    s.sampling = std::make_shared<const SamplingParams>(p);
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<test::FinishedSequence> run(const model::ModelSpec& spec, const Way& setup) {
  test::ModelBenchOptions o{.dummy = spec, .dtype = DType::kBF16, .backend = setup.backend, .num_threads = setup.threads, .graph_mode = setup.graph_mode};
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = setup.budget, .max_num_seqs = std::min(16, setup.budget), .max_model_len = 256, .num_blocks = 64, .enable_prefix_caching = setup.twice, .depth = setup.depth};
  test::ModelBench bench(o);
  Scheduler scheduler(o.scheduler);
  if (setup.twice) (void)test::run_all(*bench.runner, scheduler, prompts(spec, 100), setup.depth);
  const test::RunResult result = test::run_all(*bench.runner, scheduler, prompts(spec, 1), setup.depth);
  EXPECT_EQ(result.stats.prefix_hits > 0, setup.twice);
  return result.sequences;
}

TEST(Families, SameBitsHoweverComputed) {
  for (const test::FamilyCase& family : test::family_cases()) {
    const model::ModelSpec spec = test::family_spec(family);
    const auto alone = run(spec, {});
    for (const Way& setup : {Way{.budget = 7}, Way{.backend = "CPU_SPLIT", .threads = 2, .budget = 100}, Way{.graph_mode = "FULL", .depth = 2},
                               Way{.backend = "CPU_SPLIT", .graph_mode = "FULL_AND_PIECEWISE", .budget = 64, .depth = 2}, Way{.graph_mode = "PIECEWISE", .twice = true}}) {
      SCOPED_TRACE(std::string(family.architecture) + ", " + setup.backend + ", " + setup.graph_mode + ", steps of " + std::to_string(setup.budget));
      const auto got = run(spec, setup);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(got[i].error, "");
        EXPECT_EQ(got[i].tokens, alone[i].tokens) << i;
        const auto bits = test::compare_bits(got[i].logprobs, alone[i].logprobs);
        EXPECT_TRUE(bits.equal) << i << ": " << bits.report;
        EXPECT_EQ(got[i].tops, alone[i].tops) << i;
      }
    }
  }
}

}  // namespace
}  // namespace quire
