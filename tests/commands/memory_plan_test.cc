// The memory plan against what a run takes on the CPU device, byte for byte, and the advice when it does not fit.
#include "commands/memory_plan.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <regex>
#include <set>
#include <tuple>

#include "config/resolve.h"
#include "device/cpu/cpu_device.h"
#include "device/dry_device.h"
#include "kit/model_bench.h"

namespace quire::commands {
namespace {

const std::string kModel = QUIRE_SOURCE_DIR "/models/gsm-tiny";
constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

config::ResolvedConfig config_of(const SchedulerConfig& s, const std::string& mode = "NONE", const std::string& backend = "CPU_UNIFIED") {
  config::ResolvedConfig c;
  c.model = model::read_model_spec(kModel).value();
  c.engine.dtype = c.engine.kv_dtype = c.model.dtype;
  c.engine.scheduler = s;
  c.engine.kv_cache_bytes = s.num_blocks * config::kv_block_bytes(c.model, c.engine.kv_dtype, s.block_size).value();
  c.engine.attention_backend = backend;
  c.engine.graph.mode = mode;
  c.api.served_names = {"tiny"};
  return c;
}

SchedulerConfig small(std::int32_t depth = 1) {
  return SchedulerConfig{.max_num_batched_tokens = 200, .max_num_seqs = 40, .max_model_len = 512, .block_size = 16, .num_blocks = 100, .depth = depth};
}

MemoryPlan planned(const config::ResolvedConfig& c, std::int64_t free_bytes = kPlenty) {
  return plan_memory({c, config::MachineFacts{.total_memory_bytes = free_bytes, .free_memory_bytes = free_bytes}}).value();
}

// Mode, backend, steps in flight.
class Measured : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::int32_t>> {};

TEST_P(Measured, EveryItemIsExact) {
  const auto& [mode, backend, depth] = GetParam();
  const bool split = backend == "CPU_SPLIT";
  const test::ModelBench bench({.model_dir = kModel, .backend = split ? "CPU_SPLIT" : "CPU_UNIFIED", .graph_mode = mode, .scheduler = small(depth)});
  const MemoryPlan plan = planned(config_of(small(depth), mode, backend));
  const auto held = memory_items(*bench.device, bench.graphs_recorded.bytes);
  ASSERT_EQ(held.size(), plan.items.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(held[i].name, plan.items[i].name);
    EXPECT_EQ(held[i].bytes, plan.items[i].bytes) << held[i].name;
    EXPECT_FALSE(plan.follows[i].empty());
  }
  EXPECT_EQ(plan.bytes_of("workspace") > 0, split) << "only split decode needs one";
  EXPECT_EQ(plan.bytes_of("graphs") > 0, plan.graph_mode != "NONE");
  EXPECT_EQ(plan.total_bytes(), bench.device->allocated_bytes() + bench.device->rounding_bytes() + bench.graphs_recorded.bytes);
}

INSTANTIATE_TEST_SUITE_P(MemoryPlan, Measured,
                         ::testing::Combine(::testing::Values("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"),
                                            ::testing::Values("CPU_UNIFIED", "CPU_SPLIT"), ::testing::Values(1, 2)));

// Against arithmetic of shapes alone, so that plan and run cannot be wrong together.
TEST(MemoryPlan, FollowsFromShapes) {
  const auto c = config_of(small());
  const MemoryPlan plan = planned(c);
  EXPECT_EQ(plan.bytes_of("weights"), model::Weights::arena_bytes(c.model, {c.engine.dtype, 512}));
  EXPECT_EQ(plan.bytes_of("kv_pool"), 100u * 16 * 2 * static_cast<std::size_t>(c.model.num_layers * c.model.num_kv_heads * c.model.head_dim) * dtype_bytes(c.engine.kv_dtype));
  EXPECT_EQ(plan.bytes_of("communication"), 0u);
  EXPECT_EQ(plan.bytes_of("graphs"), 0u);
  EXPECT_GT(plan.bytes_of("activations"), 200u * static_cast<std::size_t>(2 * c.model.hidden_size + 3 * c.model.intermediate_size) * sizeof(float));
  EXPECT_GT(plan.bytes_of("sequence_state"), 40u * 512 * sizeof(TokenId));
  EXPECT_LT(plan.bytes_of("slack"), plan.items.size() * 4096);
}

TEST(MemoryPlan, NoticesEveryLimit) {
  const MemoryPlan base = planned(config_of(small(), "FULL_AND_PIECEWISE"));
  const auto with = [&](auto change) {
    SchedulerConfig s = small();
    change(s);
    return planned(config_of(s, "FULL_AND_PIECEWISE"));
  };
  EXPECT_GT(with([](auto& s) { ++s.num_blocks; }).bytes_of("kv_pool"), base.bytes_of("kv_pool"));
  EXPECT_GT(with([](auto& s) { ++s.max_num_batched_tokens; }).bytes_of("activations"), base.bytes_of("activations"));
  EXPECT_GT(with([](auto& s) { s.max_model_len = 1024; }).bytes_of("weights"), base.bytes_of("weights"));
  EXPECT_GT(with([](auto& s) { ++s.max_num_seqs; }).bytes_of("sequence_state"), base.bytes_of("sequence_state"));
  EXPECT_EQ(with([](auto& s) { s.depth = 2; }).bytes_of("step_inputs"), 2 * base.bytes_of("step_inputs"));
  EXPECT_EQ(with([](auto& s) { s.depth = 2; }).bytes_of("graphs"), 2 * base.bytes_of("graphs"));
  EXPECT_GT(with([](auto& s) { s.max_num_seqs = 80; }).bytes_of("graphs"), base.bytes_of("graphs"));
}

TEST(MemoryPlan, LongestContextAndLargestBatch) {
  SchedulerConfig s = small();
  MemoryPlan plan = planned(config_of(s));
  EXPECT_EQ(plan.longest_context, 512) << "max_model_len";
  EXPECT_EQ(plan.pool_tokens, 1600);
  EXPECT_EQ(plan.largest_batch, 3);       // 100 blocks, 32 for each
  s.num_blocks = 100'000;
  plan = planned(config_of(s));
  EXPECT_EQ(plan.longest_context, 512) << "a larger pool allows no longer request";
  s.num_blocks = 10;
  EXPECT_EQ(planned(config_of(s)).longest_context, 160) << "the pool's tokens";
  EXPECT_EQ(plan.largest_batch, 40);
}

// The advice, followed to the letter.
config::ResolvedConfig follow(config::ResolvedConfig c, const std::string& advice) {
  static const std::regex kChange("(--[a-z-]+) to ([0-9]+)");
  SchedulerConfig& s = c.engine.scheduler;
  const std::int64_t block = config::kv_block_bytes(c.model, c.engine.kv_dtype, s.block_size).value();
  for (std::sregex_iterator it(advice.begin(), advice.end(), kChange), end; it != end; ++it) {
    const std::string flag = (*it)[1];
    const std::int64_t value = std::stoll((*it)[2]);
    if (flag == "--kv-cache-memory-bytes") s.num_blocks = static_cast<std::int32_t>(value / block);
    else if (flag == "--num-gpu-blocks-override") s.num_blocks = static_cast<std::int32_t>(value);
    else if (flag == "--max-num-batched-tokens") s.max_num_batched_tokens = static_cast<std::int32_t>(value);
    else if (flag == "--max-num-seqs") s.max_num_seqs = static_cast<std::int32_t>(value);
    else if (flag == "--max-model-len") s.max_model_len = static_cast<std::int32_t>(value);
    else ADD_FAILURE() << "unknown flag " << flag;
  }
  c.engine.kv_cache_bytes = s.num_blocks * block;
  return c;
}

TEST(Advice, NothingToSayWhenItFits) {
  const auto c = config_of(small());
  const auto total = static_cast<std::int64_t>(planned(c).total_bytes());
  EXPECT_TRUE(check_fit(planned(c, total)).ok());
  EXPECT_TRUE(check_fit(planned(c, 0)).ok()) << "0: the machine does not say";
  const Status status = check_fit(planned(c, total - 1));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
}

// From a byte too little down to nothing: either advice that fits when followed, or the weights are named.
TEST(Advice, FitsWhenFollowed) {
  const auto c = config_of(small(), "FULL");
  const MemoryPlan plan = planned(c);
  std::set<std::string> flags;
  bool hopeless = false;
  for (auto free = static_cast<std::int64_t>(plan.total_bytes()) - 1; free > 0; free = free * 15 / 16 - 4096) {
    const std::string advice = planned(c, free).advice;
    ASSERT_NE(advice.find("not enough memory"), std::string::npos);
    if (advice.find("weights alone") != std::string::npos) {
      hopeless = true;
      continue;
    }
    EXPECT_FALSE(hopeless) << "less memory cannot help";
    const auto changed = follow(c, advice);
    EXPECT_TRUE(planned(changed, free).fits()) << advice;
    EXPECT_GE(changed.engine.scheduler.num_blocks * 16, changed.engine.scheduler.max_model_len) << advice;
    EXPECT_GE(changed.engine.scheduler.max_num_batched_tokens, changed.engine.scheduler.max_num_seqs) << advice;
    for (const char* flag : {"--kv-cache-memory-bytes", "--max-num-batched-tokens", "--max-num-seqs", "--max-model-len"})
      if (advice.find(flag) != std::string::npos) flags.insert(flag);
  }
  EXPECT_TRUE(hopeless);
  EXPECT_GE(flags.size(), 3u) << "pool, step and at least one other limit get their turn";
}

TEST(Advice, NamesTheFlagThatMadeThePool) {
  auto c = config_of(small());
  c.engine.num_blocks_override = c.engine.scheduler.num_blocks;
  const std::string advice = planned(c, static_cast<std::int64_t>(planned(c).total_bytes()) - 1).advice;
  EXPECT_NE(advice.find("--num-gpu-blocks-override to 98"), std::string::npos) << advice;
  EXPECT_EQ(advice.find("--kv-cache-memory-bytes"), std::string::npos) << advice;
}

TEST(MemoryPlan, TextAndJsonSayTheSame) {
  const MemoryPlan plan = planned(config_of(small(), "FULL"), 1 << 20);
  const std::string text = plan_text(plan);
  const auto document = boost::json::parse(boost::json::serialize(plan_json(plan)));
  std::size_t total = 0;
  for (const auto& item : document.at("items").as_array()) {
    const std::string name(item.at("item").as_string());
    const auto bytes = item.at("bytes").to_number<std::size_t>();
    EXPECT_EQ(bytes, plan.bytes_of(name));
    EXPECT_TRUE(std::regex_search(text, std::regex("(^|\n)" + name + " +" + std::to_string(bytes) + " "))) << name << "\n" << text;
    total += bytes;
  }
  EXPECT_EQ(document.at("total_bytes").to_number<std::size_t>(), total);
  EXPECT_TRUE(std::regex_search(text, std::regex("\ntotal +" + std::to_string(total) + " ")));
  EXPECT_FALSE(document.at("fits").as_bool());
  EXPECT_NE(text.find("does not fit: " + plan.advice), std::string::npos);
  EXPECT_TRUE(plan_json(planned(config_of(small()))).at("advice").is_null());
}

TEST(MemoryPlan, RefusesWhatServeRefuses) {
  const auto c = config_of(small(), "SOMETIMES");
  EXPECT_FALSE(plan_memory({c, {}}).ok());
}

// More than any address space holds: the plan itself cannot be made, and says which flags ask for so much.
TEST(MemoryPlan, ASizeThatCannotBeHadNamesItsFlags) {
  SchedulerConfig s = small();
  s.max_num_batched_tokens = 1 << 24;
  auto c = config_of(s);
  c.model.intermediate_size = 1 << 20;
  const auto plan = plan_memory({c, {}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(plan.error().message.find("for activations, whose size follows from model widths, --max-num-batched-tokens 16777216; lower one of these"), std::string::npos) << plan.error().message;
}

// The same when the plan fits and the system gives less than it said.
TEST(MemoryPlan, AnAllocationThatFailsNamesItsFlags) {
  const MemoryPlan plan = planned(config_of(small()));
  device::CpuDevice device(1, {});
  const auto named = [&](const char* what) { return allocation_error(device.allocate(std::size_t{1} << 60, what).error(), device, plan.follows).message; };
  EXPECT_NE(named("activations").find("--max-num-batched-tokens 200"), std::string::npos);
  EXPECT_NE(named("KV cache").find("--kv-cache-memory-bytes"), std::string::npos);
  EXPECT_NE(named("sequence state").find("--max-num-seqs 40"), std::string::npos);
  EXPECT_NE(named("weights").find("--dtype"), std::string::npos);
  EXPECT_EQ(allocation_error(invalid("something else"), device, plan.follows).message, "something else");
}

TEST(MemoryItems, AnAllocationWithoutAnItemIsABug) {
  device::DryDevice device({.family = "cpu", .name = "dry"}, 4096);
  const auto buffer = device.allocate(100, "something new").value();
  EXPECT_DEATH((void)memory_items(device, 0), "belongs to no item");
}

}  // namespace
}  // namespace quire::commands
