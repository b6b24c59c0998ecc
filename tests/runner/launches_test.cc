// What a step launches: a split backend has no launch for a list that is empty, eager and between the graphs of PIECEWISE.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kit/model_bench.h"

namespace quire {
namespace {

using Rows = std::vector<std::pair<std::int32_t, std::int32_t>>;  // cached and new tokens

StepPlan plan_of(const Rows& rows, std::int32_t block_size) {
  StepPlan plan;
  plan.step_id = 1;
  auto greedy = std::make_shared<SamplingParams>();
  greedy->temperature = 0.0;
  std::int32_t next_block = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [cached, fresh] = rows[i];
    const StateRow state{static_cast<std::int32_t>(i)};
    const RequestId request{i + 1};
    plan.uploads.push_back(StateUpload{state, request, std::vector<TokenId>(static_cast<std::size_t>(cached + fresh), 7), cached + fresh, greedy});
    BlockAppend blocks{state, {}};
    for (std::int32_t t = 0; t < cached + fresh; t += block_size) blocks.blocks.push_back(BlockId{next_block++});
    plan.block_appends.push_back(std::move(blocks));
    plan.rows.push_back(RowPlan{.row = state, .request = request, .num_computed = cached, .num_new = fresh, .samples = true});
    plan.num_tokens += fresh;
  }
  return plan;
}

// Launches that are not part of a graph.
std::uint64_t launches(const std::string& backend, const std::string& mode, const Rows& rows) {
  test::ModelBenchOptions o{.model_dir = QUIRE_SOURCE_DIR "/models/gsm-tiny", .backend = backend, .graph_mode = mode};
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 64, .max_num_seqs = 16, .max_model_len = 1024, .num_blocks = 200};
  test::ModelBench b(o);
  const std::uint64_t before = b.runner->trace().stream->num_launches();
  b.runner->submit(plan_of(rows, o.scheduler.block_size));
  EXPECT_TRUE(b.runner->collect().ok());
  EXPECT_EQ(graph::runtime_mode_name(b.runner->last_choice().key.mode), mode);
  return b.runner->trace().stream->num_launches() - before;
}

TEST(Launches, NoneForAnEmptyList) {
  constexpr std::uint64_t kLayers = 6;
  struct Case {
    Rows rows;
    std::uint64_t of_a_layer;  // attention's, of the split backend
  };
  const Case cases[] = {
      {{{5, 1}, {40, 1}}, 1},           // decode rows of one partition
      {{{600, 1}, {3, 1}}, 2},          // a partition more: combine
      {{{0, 5}, {0, 9}}, 1},            // prefill rows
      {{{30, 6}}, 1},                   // an extend row
      {{{30, 6}, {0, 9}}, 1},           // both are the prefill kernel's
      {{{5, 1}, {0, 9}}, 2},            // decode and prefill
      {{{600, 1}, {30, 6}, {0, 4}}, 3}  // all
  };
  for (const char* mode : {"NONE", "PIECEWISE"})
    for (const Case& c : cases) {
      // The unified backend has one launch a layer, and the rest of a step is the same.
      const std::uint64_t rest = launches("CPU_UNIFIED", mode, c.rows) - kLayers;
      EXPECT_EQ(launches("CPU_SPLIT", mode, c.rows) - rest, kLayers * c.of_a_layer) << mode << ", case " << &c - cases;
    }
}

// Recording says how far it is, graph by graph, for each instance of the step buffers.
TEST(Recording, TellsHowFarItIs) {
  test::ModelBenchOptions o{.model_dir = QUIRE_SOURCE_DIR "/models/gsm-tiny", .graph_mode = "FULL_AND_PIECEWISE"};
  o.scheduler = SchedulerConfig{.max_num_batched_tokens = 64, .max_num_seqs = 4, .max_model_len = 64, .num_blocks = 20, .depth = 2};
  test::ModelBench b(o);
  auto second = runner::ModelRunner::create(*b.device, b.config, *b.weights, *b.kv).value();
  std::vector<std::size_t> told;
  const auto recorded = second->record_graphs([&](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 2 * b.graphs_recorded.num_keys);
    told.push_back(done);
  });
  EXPECT_EQ(recorded.num_graphs, b.graphs_recorded.num_graphs);
  ASSERT_EQ(told.size(), 2 * recorded.num_keys);
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i], i + 1);
}

}  // namespace
}  // namespace quire
