// D0 to D3 on the real model (docs/NUMERICS.md names each test of this file): a request's log-probabilities have the same bits alone, in a
// crowd, chunked, after a prefix hit, after preemption, generated or scored, with any thread count, either attention row, in every graph
// mode, and with one or two steps in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <tuple>

#include "kit/compare.h"
#include "kit/model_bench.h"
#include "kit/seed.h"

namespace quire {
namespace {

const std::string kModel = QUIRE_SOURCE_DIR "/models/gsm-tiny";
constexpr int kSubjects = 4;

struct Scenario {
  std::string backend = "CPU_UNIFIED", graph_mode = "NONE";
  int threads = 1;
  std::int32_t budget = 2048, depth = 1, num_blocks = 1024, block_size = 16, crowd = 0;
  std::int32_t crowd_prompt = 300, crowd_outputs = 24;  // longest prompt, tokens generated, of the crowd's members
  bool prefix_caching = false;
  std::optional<DType> kv = {};  // of the cache; else the model's
  bool fp8_weights = false;      // quantised while loading, inputs per token
  bool twice = false;  // run the subjects first once, so that the second time hits the prefix cache
  int contradictions = 0;  // sequences whose parameters leave no token, at their first output and at their second
};

std::vector<TokenId> random_prompt(std::mt19937_64& rng, std::size_t n) {
  std::vector<TokenId> p(n);
  for (auto& t : p) t = static_cast<TokenId>(rng() % 560);
  return p;
}

SequenceSpec spec_of(std::uint64_t id, std::vector<TokenId> prompt, double temperature, std::int32_t outputs = 24) {
  auto p = std::make_shared<SamplingParams>();
  p->temperature = temperature;
  p->top_p = 0.95;
  p->seed = id * 77 + 5;
  p->max_tokens = outputs;
  p->ignore_eos = true;
  p->logprobs = 4;
  return SequenceSpec{.id = RequestId{id}, .prompt = std::move(prompt), .sampling = p, .arrival = id};
}

// Even ids: one token is allowed, and never after itself. Odd ids: the tokens that are allowed are the end tokens that min_tokens masks.
SequenceSpec contradiction(std::uint64_t id, std::vector<TokenId> prompt) {
  auto p = std::make_shared<SamplingParams>();
  p->max_tokens = 24;
  p->seed = id;
  p->allowed_token_ids = {5};
  if (id % 2 == 0) {
    p->bad_words = {{5, 5}};
  } else {
    p->stop_token_ids = {5};
    p->min_tokens = 3;
  }
  return SequenceSpec{.id = RequestId{id}, .prompt = std::move(prompt), .sampling = p, .arrival = id};
}

// The four subjects (two greedy, two sampled) of 1, 40, 130 and 570 tokens.
std::vector<SequenceSpec> subjects(std::uint64_t first_id) {
  std::mt19937_64 rng(1234);
  std::vector<SequenceSpec> s;
  const std::size_t lengths[kSubjects] = {1, 40, 130, 570};
  for (int i = 0; i < kSubjects; ++i) {
    s.push_back(spec_of(static_cast<std::uint64_t>(i), random_prompt(rng, lengths[i]), i % 2 == 0 ? 0.0 : 0.8));
    s.back().id = RequestId{first_id + static_cast<std::uint64_t>(i)};
  }
  return s;
}

struct Outcome {
  std::vector<test::FinishedSequence> subjects;
  SchedulerStats stats;
};

Outcome run(const Scenario& setup, std::vector<SequenceSpec> mine = subjects(10)) {
  test::ModelBenchOptions o{.model_dir = kModel, .backend = setup.backend, .num_threads = setup.threads, .graph_mode = setup.graph_mode};
  o.kv_dtype = setup.kv;
  if (setup.fp8_weights) o.on_load = model::LinearScheme{model::WeightScaling::kTensor, model::InputScaling::kPerToken};
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = setup.budget,
                                .max_num_seqs = std::min(80, setup.budget),
                                .max_model_len = 1024,
                                .block_size = setup.block_size,
                                .num_blocks = setup.num_blocks,
                                .enable_prefix_caching = setup.prefix_caching,
                                .depth = setup.depth};
  test::ModelBench bench(o);
  Scheduler scheduler(o.scheduler);
  if (setup.twice) (void)test::run_all(*bench.runner, scheduler, subjects(1000), setup.depth);
  std::vector<SequenceSpec> all;
  auto rng = test::seeded_rng();
  for (int i = 0; i < setup.crowd; ++i) all.push_back(spec_of(100 + static_cast<std::uint64_t>(i), random_prompt(rng, 1 + rng() % static_cast<unsigned>(setup.crowd_prompt)), 1.0, setup.crowd_outputs));
  for (int i = 0; i < setup.contradictions; ++i) all.insert(all.begin() + i, contradiction(500 + static_cast<std::uint64_t>(i), random_prompt(rng, 1 + rng() % 200)));
  const auto middle = static_cast<std::ptrdiff_t>((all.size() + static_cast<std::size_t>(setup.contradictions)) / 2);
  all.insert(all.begin() + middle, mine.begin(), mine.end());
  auto result = test::run_all(*bench.runner, scheduler, all, setup.depth);
  EXPECT_TRUE(scheduler.check_integrity().ok());
  EXPECT_EQ(scheduler.stats().num_blocks_free, scheduler.stats().num_blocks_total);
  EXPECT_EQ(bench.device->allocations_after_seal(), 0u);
  for (int i = 0; i < setup.contradictions; ++i) {
    const test::FinishedSequence& failed = result.sequences[static_cast<std::size_t>(i)];
    EXPECT_EQ(failed.tokens.size(), i % 2 == 0 ? 1u : 0u);
    EXPECT_NE(failed.error.find("output token " + std::to_string(failed.tokens.size()) + ": "), std::string::npos) << failed.error;
    EXPECT_NE(failed.error.find("leave no token"), std::string::npos) << failed.error;
  }
  return {{result.sequences.begin() + middle, result.sequences.begin() + middle + kSubjects}, result.stats};
}

// What each format of the cache and of the weights gives, alone and eager.
const Outcome& baseline(std::optional<DType> kv, bool fp8_weights = false) {
  static std::map<std::pair<std::optional<DType>, bool>, Outcome> outcomes;
  auto& outcome = outcomes[{kv, fp8_weights}];
  if (outcome.subjects.empty()) outcome = run(Scenario{.kv = kv, .fp8_weights = fp8_weights});
  return outcome;
}

void expect_same(const Outcome& got, std::optional<DType> kv = {}, bool fp8_weights = false) {
  for (int i = 0; i < kSubjects; ++i) {
    const auto& a = got.subjects[static_cast<std::size_t>(i)];
    const auto& b = baseline(kv, fp8_weights).subjects[static_cast<std::size_t>(i)];
    EXPECT_EQ(a.error, "");
    EXPECT_EQ(a.tokens, b.tokens) << "subject " << i;
    const auto bits = test::compare_bits(a.logprobs, b.logprobs);
    EXPECT_TRUE(bits.equal) << "subject " << i << ": " << bits.report;
    EXPECT_EQ(a.tops, b.tops) << "subject " << i;
  }
}

TEST(D0, RunToRun) { expect_same(run(Scenario{})); }

TEST(D1, InACrowd) { expect_same(run(Scenario{.crowd = 60})); }
TEST(D1, TwoThreads) { expect_same(run(Scenario{.threads = 2, .crowd = 20})); }
TEST(D1, SplitBackend) { expect_same(run(Scenario{.backend = "CPU_SPLIT", .threads = 2, .budget = 256, .crowd = 30})); }
TEST(D1, TwoStepsInFlight) { expect_same(run(Scenario{.depth = 2, .crowd = 20})); }
TEST(D1, BesideContradictions) {
  for (const std::int32_t depth : {1, 2}) expect_same(run(Scenario{.budget = 200, .depth = depth, .crowd = 6, .contradictions = 6}));
}
TEST(D1, BlockOf64) { expect_same(run(Scenario{.num_blocks = 256, .block_size = 64, .crowd = 10})); }

const auto kEveryMode = ::testing::Combine(::testing::Values("CPU_UNIFIED", "CPU_SPLIT"), ::testing::Values("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"));
using ModeParam = std::tuple<std::string, std::string>;
std::string mode_name(const ::testing::TestParamInfo<ModeParam>& p) { return std::get<0>(p.param) + "_" + std::get<1>(p.param); }

// Every graph mode with either backend: decode and mixed batches, padded up to the recorded sizes.
class D1Graphs : public ::testing::TestWithParam<ModeParam> {};
TEST_P(D1Graphs, SameBitsAsEager) {
  const auto& [backend, mode] = GetParam();
  expect_same(run(Scenario{.backend = backend, .graph_mode = mode, .budget = 200, .depth = 2, .crowd = 11}));
}
INSTANTIATE_TEST_SUITE_P(EveryMode, D1Graphs, kEveryMode, mode_name);

TEST(D2, ChunkedByOne) { expect_same(run(Scenario{.budget = 1})); }
TEST(D2, ChunkedBySeven) { expect_same(run(Scenario{.budget = 7, .crowd = 3})); }
TEST(D2, ChunkedBy512) { expect_same(run(Scenario{.budget = 512})); }

TEST(D2, AfterAPrefixHit) {
  const Outcome got = run(Scenario{.prefix_caching = true, .twice = true});
  expect_same(got);
  EXPECT_GT(got.stats.prefix_hits, 500u);
}

TEST(D2, AfterPreemption) {
  const Outcome got = run(Scenario{.depth = 2, .num_blocks = 60, .crowd = 30, .crowd_prompt = 30, .crowd_outputs = 130, .prefix_caching = true});
  expect_same(got);
  EXPECT_GT(got.stats.num_preemptions, 20u);
}

// FP8 caches: everything that changes how a token's context was computed, at once.
class D2Fp8Cache : public ::testing::TestWithParam<DType> {};
TEST_P(D2Fp8Cache, SameBitsHoweverComputed) {
  const DType kv = GetParam();
  expect_same(run(Scenario{.budget = 7, .crowd = 3, .kv = kv}), kv);
  expect_same(run(Scenario{.backend = "CPU_SPLIT", .graph_mode = "FULL_AND_PIECEWISE", .threads = 2, .budget = 200, .depth = 2, .crowd = 11, .kv = kv}), kv);
  expect_same(run(Scenario{.graph_mode = "FULL", .num_blocks = 60, .crowd = 30, .crowd_prompt = 30, .crowd_outputs = 130, .prefix_caching = true, .kv = kv}), kv);
  expect_same(run(Scenario{.prefix_caching = true, .kv = kv, .twice = true}), kv);
  EXPECT_NE(baseline(kv).subjects[3].logprobs, baseline({}).subjects[3].logprobs) << "the cache's format changes nothing";
}
INSTANTIATE_TEST_SUITE_P(EveryFormat, D2Fp8Cache, ::testing::Values(DType::kFp8E4m3, DType::kFp8E4m3Fnuz, DType::kFp8E5m2), [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(D2Fp8Weights, SameBitsHoweverComputed) {
  const auto same = [](const Scenario& s) { expect_same(run(s), s.kv, true); };
  same(Scenario{.threads = 2, .budget = 7, .crowd = 3, .fp8_weights = true});
  same(Scenario{.backend = "CPU_SPLIT", .graph_mode = "FULL_AND_PIECEWISE", .budget = 200, .depth = 2, .crowd = 4, .fp8_weights = true});
  same(Scenario{.graph_mode = "FULL", .crowd = 4, .kv = DType::kFp8E4m3, .fp8_weights = true});
  EXPECT_NE(baseline({}, true).subjects[3].logprobs, baseline({}).subjects[3].logprobs) << "quantising changes nothing";
}

// A generated token, one decode step each, and the same token in a prompt that is scored by prefill: in every graph mode, with every
// cache format's own rounding in between.
class D3Graphs : public ::testing::TestWithParam<ModeParam> {};
TEST_P(D3Graphs, AGeneratedTokenIsScoredTheSameInAPrompt) {
  const auto& [backend, mode] = GetParam();
  for (const std::optional<DType> kv : {std::optional<DType>(), std::optional(DType::kFp8E4m3)}) {
    const Scenario setup{.backend = backend, .graph_mode = mode, .budget = 128, .depth = 2, .crowd = 3, .kv = kv};
    const Outcome decoded = run(setup);
    std::vector<SequenceSpec> longer = subjects(10);
    for (std::size_t i = 0; i < longer.size(); ++i) {
      const auto& tokens = decoded.subjects[i].tokens;
      longer[i].prompt.insert(longer[i].prompt.end(), tokens.begin(), tokens.end());
      auto p = std::make_shared<SamplingParams>(*longer[i].sampling);
      p->prompt_logprobs = 4;
      longer[i].sampling = p;
    }
    const std::vector<SequenceSpec> asked = subjects(10);
    const Outcome scored = run(setup, longer);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto& d = decoded.subjects[i];
      const std::size_t first = asked[i].prompt.size() - 1;  // the prompt's own first token has no log-probability
      ASSERT_EQ(d.tokens.size(), 24u);
      ASSERT_EQ(scored.subjects[i].prompt_logprobs.size(), first + d.tokens.size());
      for (std::size_t k = 0; k < d.tokens.size(); ++k) {
        const TokenLogprobs& s = scored.subjects[i].prompt_logprobs[first + k];
        EXPECT_EQ(s.token, d.tokens[k]);
        EXPECT_EQ(s.logprob, d.logprobs[k]) << "subject " << i << ", output " << k;
        EXPECT_EQ(s.top, d.tops[k]) << "subject " << i << ", output " << k;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(EveryMode, D3Graphs, kEveryMode, mode_name);

// docs/NUMERICS.md names, in the row of each level, the tests of that level in this file: all of them and no others.
TEST(DeterminismLevels, TheDocumentNamesEveryTest) {
  std::map<std::string, std::set<std::string>> written, built;
  std::ifstream document(std::string(QUIRE_SOURCE_DIR) + "/docs/NUMERICS.md");
  const std::regex row(R"(\| (D[0-3]) \|.*)"), test("`(D[0-3]\\w*\\.\\w+)`");
  for (std::string line; std::getline(document, line);) {
    std::smatch level;
    if (!std::regex_match(line, level, row)) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), test), end; it != end; ++it) written[level[1]].insert((*it)[1]);
  }
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const auto& suite = *all.GetTestSuite(s);
    const std::string full = suite.name(), name = full.substr(full.find('/') + 1);  // without the instantiation; npos + 1 is 0
    if (!std::regex_match(name, std::regex("D[0-3]\\w*"))) continue;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string one = suite.GetTestInfo(t)->name();
      built[name.substr(0, 2)].insert(name + "." + one.substr(0, one.find('/')));
    }
  }
  EXPECT_EQ(built.size(), 4u);
  EXPECT_EQ(written, built);
}

}  // namespace
}  // namespace quire
