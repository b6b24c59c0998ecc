// quire bench attention: its command line, its documents, a small real run, and what happens to kernels that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

#include "attention/cpu_kernels.h"
#include "attention/params.h"
#include "commands/bench_attention.h"
#include "config/command_line.h"

namespace quire::commands {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result<BenchAttentionRequest> request_of(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"bench", "attention"});
  const auto command = config::parse_command_line(flags);
  if (!command.ok()) return command.error();
  return bench_attention_request(std::get<config::BenchAttentionCommand>(command.value()).options, {});
}

std::string error_of(const std::vector<std::string>& flags) {
  const auto request = request_of(flags);
  return request.ok() ? "" : request.error().message;
}

// A machine of stated rates, so that no test waits for a measurement.
BenchDevice device_of(std::vector<device::CpuKernel> kernels, int threads = 2) {
  BenchDevice d;
  d.device = std::make_unique<device::CpuDevice>(threads, kernels);
  d.machine = {.cpu = "a CPU", .isa = "AVX3", .num_cores = 4, .num_threads = threads, .memory_bytes = std::int64_t{8} << 30, .last_cache_bytes = 1 << 16, .rates = {20e9, 400e9}};
  return d;
}

std::vector<device::CpuKernel> right_kernels() {
  const auto kernels = attention::cpu_kernels();
  return {kernels.begin(), kernels.end()};
}

BenchAttentionReport run(BenchDevice device, const std::vector<std::string>& flags) {
  auto request = request_of(flags);
  QUIRE_CHECK(request.ok()) << request.error().message;
  return run_bench_attention(device, request.value());
}

TEST(BenchCommandLine, Defaults) {
  const auto q = request_of({});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->shapes, table_shapes());
  ASSERT_EQ(q->backends.size(), 2u);
  EXPECT_EQ(q->backends[0]->name, "CPU_UNIFIED");
  EXPECT_EQ(q->backends[1]->name, "CPU_SPLIT");
  EXPECT_EQ(q->kv_dtype, DType::kBF16);
  EXPECT_EQ(q->block_size, 16);
}

TEST(BenchCommandLine, EveryFlag) {
  const auto q = request_of({"--shapes", "decode-d64-2x100", "prefill-d64-1x20", "--backend", "cpu_split", "--dtype", "half", "--block_size", "32", "--threads", "1", "--min-time", "0.25", "--time-limit=2", "--json", "--plot", "x.svg"});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->shapes.size(), 2u);
  ASSERT_EQ(q->backends.size(), 1u);
  EXPECT_EQ(q->backends[0]->name, "CPU_SPLIT");
  EXPECT_EQ(q->kv_dtype, DType::kF16);
  EXPECT_EQ(q->block_size, 32);
  EXPECT_EQ(q->timing.min_seconds, 0.25);
  EXPECT_EQ(q->timing.limit_seconds, 2.0);
  EXPECT_EQ(request_of({"--dtype", "float32", "--kv-cache-dtype", "float16"})->kv_dtype, DType::kF16);
  EXPECT_EQ(request_of({"--kv-cache-dtype", "fp8"})->kv_dtype, DType::kFp8E4m3);
  EXPECT_EQ(request_of({"--kv-cache-dtype", "fp8_e5m2"})->kv_dtype, DType::kFp8E5m2);
}

TEST(BenchCommandLine, MistakesNameTheFlagAndWhatIsAllowed) {
  EXPECT_THAT(error_of({"--backend", "cpu_spilt"}), HasSubstr("--backend 'cpu_spilt': must be one of all, CPU_UNIFIED, CPU_SPLIT (did you mean 'CPU_SPLIT'?)"));
  EXPECT_THAT(error_of({"--backend", "ROCM_FAST"}), HasSubstr("must be one of all, CPU_UNIFIED, CPU_SPLIT"));
  EXPECT_THAT(error_of({"--block-size", "24"}), HasSubstr("--block-size 24: must be a multiple of 16"));
  EXPECT_THAT(error_of({"--min-time", "-1"}), HasSubstr("--min-time '-1': must be a number from 0"));
  EXPECT_THAT(error_of({"--time-limit", "0"}), HasSubstr("--time-limit '0'"));
  EXPECT_THAT(error_of({"--dtype", "int8"}), HasSubstr("--dtype 'int8': must be one of"));
  EXPECT_THAT(error_of({"--shape", "x"}), HasSubstr("did you mean '--shapes'"));
  EXPECT_THAT(error_of({"--port", "1"}), HasSubstr("--port: belongs to `quire serve`"));
  EXPECT_THAT(error_of({"models/gsm-tiny"}), HasSubstr("runs no model"));
  EXPECT_THAT(error_of({"--filter", "d64", "--shapes", "decode-d64-1x1"}), HasSubstr("exclude each other"));
}

TEST(BenchCommandLine, OtherBenches) {
  const auto error = [](std::vector<std::string> line) {
    const auto c = config::parse_command_line(line);
    return c.ok() ? "" : c.error().message;
  };
  EXPECT_THAT(error({"bench"}), HasSubstr("what to measure is missing"));
  EXPECT_THAT(error({"bench", "gemm"}), HasSubstr("not built yet; there are attention, serve, latency and throughput"));
  EXPECT_THAT(error({"bench", "atention"}), HasSubstr("did you mean 'attention'"));
  EXPECT_THAT(error({"serve", "M", "--shapes", "x"}), HasSubstr("--shapes: belongs to `quire bench attention`"));
  const auto help = config::parse_command_line(std::vector<std::string>{"bench", "attention", "--help"});
  ASSERT_TRUE(help.ok());
  for (const char* flag : {"--shapes", "--filter", "--backend", "--dtype", "--kv-cache-dtype", "--block-size", "--num-threads, --threads", "--min-time", "--time-limit", "--[no-]json", "--plot"})
    EXPECT_THAT(std::get<config::HelpCommand>(help.value()).text, HasSubstr(flag));
  EXPECT_THAT(std::get<config::HelpCommand>(help.value()).text, Not(HasSubstr("--port")));
}

// Each number twice: as the kernels gave it under a check, and as text, document and chart show it.
TEST(BenchRun, SmallShapesOnBothBackends) {
  struct Case {
    const char *dtype, *suffix;
  };
  for (const Case& c : {Case{"bfloat16", "bf16"}, Case{"float16", "f16"}, Case{"float32", "f32"}, Case{"fp8", "e4m3"}, Case{"fp8_e5m2", "e5m2"}}) {
    const std::string suffix = c.suffix;
    const auto report = run(device_of(right_kernels()), {"--shapes", "decode-d32-3x600", "prefill-d16-2x70", "decode-d128-64x150", "--min-time", "0.001", "--kv-cache-dtype", c.dtype, "--block-size", "32"});
    ASSERT_EQ(report.results.size(), 6u);
    for (const AttentionResult& r : report.results) {
      ASSERT_EQ(r.skipped, "");
      EXPECT_TRUE(r.verdict->passed) << r.shape.name() << " " << r.backend << ": " << r.verdict->where;
      ASSERT_TRUE(r.timing.has_value());
      EXPECT_GE(r.timing->seconds.size(), kMinRepeats);
      EXPECT_GT(r.timing->min(), 0.0);
    }
    EXPECT_THAT(report.results[0].kernels, ElementsAre("attention_unified_" + suffix));
    EXPECT_THAT(report.results[1].kernels, ElementsAre("attention_decode_" + suffix, "attention_decode_combine"));  // 600 tokens are two partitions
    EXPECT_THAT(report.results[3].kernels, ElementsAre("attention_prefill_" + suffix));
    EXPECT_THAT(report.results[5].kernels, ElementsAre("attention_decode_" + suffix));
    EXPECT_TRUE(report.all_right());
    EXPECT_TRUE(report.results[4].sizes.from_memory);  // 40 MiB and more against a cache of 64 KiB
  }
}

// Rates are those of the median, against the machine's.
TEST(BenchReport, RatesFollowFromTheMedian) {
  BenchAttentionReport report{.machine = {.rates = {10e9, 100e9}}, .request = {}, .results = {}};
  AttentionResult r{.shape = parse_shape("decode-d128-16x8k").value(), .timing = Timing{{3.0, 1.0, 2.0}}};
  const AttentionRates rates = attention_rates(r, report);
  const double bytes = 16.0 * 8192 * 2 * 8 * 128 * 2 + 16.0 * 2 * 32 * 128 * 4, flops = 16.0 * 8192 * 32 * 128 * 4;
  EXPECT_DOUBLE_EQ(rates.gb_per_s, bytes / 2.0 / 1e9);
  EXPECT_DOUBLE_EQ(rates.read_share, bytes / 2.0 / 10e9);
  EXPECT_DOUBLE_EQ(rates.gflop_per_s, flops / 2.0 / 1e9);
  EXPECT_DOUBLE_EQ(rates.fma_share, flops / 2.0 / 100e9);
}

BenchAttentionReport example() {
  BenchAttentionReport report{.machine = {.cpu = "a \"CPU\" <x>", .isa = "AVX3", .num_cores = 4, .num_threads = 2, .memory_bytes = 1 << 30, .last_cache_bytes = 1 << 20, .rates = {20e9, 400e9}},
                              .request = request_of({"--shapes", "decode-d128-16x8k", "prefill-d8-1x9"}).value(),
                              .results = {}};
  const AttentionShape decode = report.request.shapes[0], prefill = report.request.shapes[1];
  const selfcheck::Verdict right{.check = "attention", .passed = true, .worst_error = 1e-6, .bound = 4e-6, .where = "row 1"};
  selfcheck::Verdict wrong = right;
  wrong.passed = false;
  wrong.worst_error = HUGE_VAL;
  wrong.where = "row 2: nan instead of 1";
  report.results.push_back({.shape = decode, .backend = "CPU_UNIFIED", .verdict = right, .timing = Timing{{0.05, 0.04, 0.06}}, .sizes = {.num_layers = 1}, .kernels = {"k1", "k2"}, .launched_units = 7});
  report.results.push_back({.shape = decode, .backend = "CPU_SPLIT", .skipped = "needs 9 MiB"});
  report.results.push_back({.shape = prefill, .backend = "CPU_UNIFIED", .verdict = wrong});
  report.results.push_back({.shape = prefill, .backend = "CPU_SPLIT", .verdict = right, .timing = Timing{{1e-5}}, .sizes = {.num_layers = 64, .from_memory = false}, .kernels = {"k3"}});
  return report;
}

TEST(BenchReport, TextSaysEverything) {
  const std::string text = bench_attention_text(example());
  for (const char* part : {"a \"CPU\" <x>, 4 cores, 2 threads, kernels for AVX3", "plain reads: 20.0 GB/s", "400 GFLOP/s", "32 query heads, 8 KV heads, cache of bfloat16, block 16", "50.0 ms", "40.0 ms", "537.4 MB", "10.75", "54 %",
                           "k1 + k2", "skipped: needs 9 MiB", "WRONG: row 2: nan instead of 1", "prefill-d8-1x9 *", "* not a shape of the table", "cached", "WRONG results are not timed"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(BenchReport, DocumentSaysEverything) {
  const auto json = boost::json::parse(boost::json::serialize(bench_attention_json(example()))).as_object();
  EXPECT_EQ(json.at("bench"), "attention");
  const auto& machine = json.at("machine").as_object();
  EXPECT_EQ(machine.at("cpu"), "a \"CPU\" <x>");
  EXPECT_EQ(machine.at("isa"), "AVX3");
  EXPECT_EQ(machine.at("threads"), 2);
  EXPECT_EQ(machine.at("read_gb_per_s").to_number<double>(), 20.0);
  const auto& results = json.at("results").as_array();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0].at("status"), "measured");
  EXPECT_EQ(results[0].at("in_table"), true);
  EXPECT_EQ(results[0].at("bytes"), 537395200);
  EXPECT_DOUBLE_EQ(results[0].at("time").at("median_us").to_number<double>(), 50000.0);
  EXPECT_EQ(results[0].at("time").at("repeats").to_number<int>(), 3);
  EXPECT_DOUBLE_EQ(results[0].at("check").at("bound_used").to_number<double>(), 0.25);
  EXPECT_EQ(results[1].at("status"), "skipped");
  EXPECT_EQ(results[1].at("reason"), "needs 9 MiB");
  EXPECT_EQ(results[2].at("status"), "wrong");
  EXPECT_TRUE(results[2].at("check").at("bound_used").is_null());
  EXPECT_FALSE(results[2].as_object().contains("time"));
  EXPECT_TRUE(results[3].at("time").at("read_share").is_null());  // it may come from the processor's cache
}

TEST(BenchReport, ChartHasAPanelForEachPhase) {
  const BarChart chart = bench_attention_chart(example());
  ASSERT_EQ(chart.panels.size(), 2u);
  EXPECT_THAT(chart.panels[0].axis, HasSubstr("GB/s"));
  EXPECT_THAT(chart.panels[1].axis, HasSubstr("GFLOP/s"));
  EXPECT_EQ(chart.panels[0].groups[0].bars[1].note, "skipped");
  EXPECT_FALSE(chart.panels[0].groups[0].bars[1].value.has_value());
  EXPECT_EQ(chart.panels[1].groups[0].bars[0].note, "wrong");
  EXPECT_NEAR(*chart.panels[0].groups[0].bars[0].value, 10.747904, 1e-6);
}

TEST(BenchSkips, MemoryAndTimeAreSaid) {
  const auto memory = run(device_of(right_kernels()), {"--shapes", "decode-d256-256x4096k", "--backend", "cpu_split"});
  ASSERT_EQ(memory.results.size(), 1u);
  EXPECT_THAT(memory.results[0].skipped, ::testing::ContainsRegex("needs [0-9]+ MiB, [0-9]+ MiB of memory are free"));
  EXPECT_FALSE(memory.results[0].timing.has_value());
  const auto slow = run(device_of(right_kernels()), {"--shapes", "prefill-d128-1x4k", "--time-limit", "0.1"});
  ASSERT_EQ(slow.results.size(), 2u);  // 137 GFLOP at 400 GFLOP/s, twice
  for (const AttentionResult& r : slow.results) EXPECT_THAT(r.skipped, HasSubstr("a check and one repeat take at least 687 ms, --time-limit is 100 ms"));
  BenchDevice fast = device_of(right_kernels());
  fast.machine.rates = {1e18, 1e18};  // the estimate lets it through; the first run does not
  const auto one = run(std::move(fast), {"--shapes", "prefill-d128-1x1k", "--time-limit", "0.001"});
  for (const AttentionResult& r : one.results) EXPECT_THAT(r.skipped, HasSubstr("one run takes "));
}

TEST(BenchSizes, LayersInTurnOutgrowTheCacheUntilMemoryEnds) {
  const AttentionShape shape = parse_shape("decode-d64-4x1k").value();  // a little over 8 MiB a layer
  const CaseSettings roomy{.last_cache_bytes = 32 << 20, .free_bytes = std::int64_t{4} << 30};
  const auto many = case_sizes(shape, roomy);
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->num_layers, 16);
  EXPECT_TRUE(many->from_memory);
  CaseSettings tight = roomy;
  tight.free_bytes = 24 << 20;
  const auto few = case_sizes(shape, tight);
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(few->num_layers, 2);
  EXPECT_FALSE(few->from_memory);
  EXPECT_LE(few->total_bytes, tight.free_bytes);
  tight.free_bytes = 8 << 20;
  EXPECT_THAT(case_sizes(shape, tight).error().message, HasSubstr("MiB of memory are free"));
}

// --- kernels that are wrong ---

using attention::AttnParams;

std::array<device::ThreadPool::Body, device::kNumKernels> g_right{};

template <device::KernelId kId, void (*kDamage)(AttnParams&)>
void damaged(const void* params, std::int64_t begin, std::int64_t end) {
  AttnParams p = *static_cast<const AttnParams*>(params);
  kDamage(p);
  g_right[static_cast<std::size_t>(kId)](&p, begin, end);
}

template <void (*kDamage)(AttnParams&)>
std::vector<device::CpuKernel> kernels_with() {
  constexpr auto kId = device::KernelId::kAttnUnifiedBF16;
  std::vector<device::CpuKernel> kernels = right_kernels();
  for (device::CpuKernel& k : kernels) {
    g_right[static_cast<std::size_t>(k.id)] = k.run;
    if (k.id == kId) k.run = damaged<kId, kDamage>;
  }
  return kernels;
}

void scores_a_little_off(AttnParams& p) { p.scale *= 1.001f; }
void half_of_the_work(AttnParams& p) {
  static std::int32_t half;
  half = *p.num_work / 2;
  p.num_work = &half;
}
void reads_past_the_end(AttnParams& p) {
  static std::vector<std::int32_t> lengths;
  lengths.assign(p.seq_lens, p.seq_lens + 4);
  for (std::int32_t& n : lengths) ++n;
  p.seq_lens = lengths.data();
}
void ignores_the_table(AttnParams& p) {
  static std::vector<std::int32_t> table;
  table.assign(static_cast<std::size_t>(4 * p.block_table_stride), 0);
  p.block_table = table.data();
}

void expect_caught(std::vector<device::CpuKernel> kernels) {
  const auto report = run(device_of(std::move(kernels), 1), {"--shapes", "decode-d16-4x100", "--min-time", "0.001"});
  ASSERT_EQ(report.results.size(), 2u);
  EXPECT_FALSE(report.results[0].verdict->passed);
  EXPECT_THAT(report.results[0].verdict->where, HasSubstr("row "));
  EXPECT_FALSE(report.results[0].timing.has_value());
  EXPECT_TRUE(report.results[1].verdict->passed) << report.results[1].verdict->where;  // CPU_SPLIT's kernels are right
  EXPECT_FALSE(report.all_right());
}

TEST(BenchCheck, AWrongScale) { expect_caught(kernels_with<scores_a_little_off>()); }
TEST(BenchCheck, RowsThatNobodyWrites) { expect_caught(kernels_with<half_of_the_work>()); }
TEST(BenchCheck, ReadingPastTheEnd) { expect_caught(kernels_with<reads_past_the_end>()); }
TEST(BenchCheck, ReadingOtherBlocks) { expect_caught(kernels_with<ignores_the_table>()); }

TEST(Timings, MedianMinSpread) {
  const Timing t{{5.0, 1.0, 2.0, 4.0, 3.0}};
  EXPECT_DOUBLE_EQ(t.median(), 3.0);
  EXPECT_DOUBLE_EQ(t.min(), 1.0);
  EXPECT_NEAR(t.spread(), (4.6 - 1.4) / 3.0, 1e-12);
  EXPECT_DOUBLE_EQ((Timing{{2.0}}).spread(), 0.0);
  EXPECT_DOUBLE_EQ((Timing{{2.0, 4.0}}).median(), 3.0);
}

TEST(Timings, RepeatsFollowTheRules) {
  std::size_t calls = 0;
  const auto count = [&](std::size_t i) { EXPECT_EQ(i, calls++); };
  EXPECT_EQ(time_repeats({.min_seconds = 0.0, .limit_seconds = 1.0}, count).seconds.size(), kMinRepeats);
  calls = 0;
  EXPECT_EQ(time_repeats({.min_seconds = 1.0, .limit_seconds = 0.0}, count).seconds.size(), 1u);
  calls = 0;
  EXPECT_GT(time_repeats({.min_seconds = 0.002, .limit_seconds = 1.0}, count).seconds.size(), kMinRepeats);
}

TEST(Timings, DurationsInTheUnitThatFits) {
  EXPECT_EQ(duration_text(1.5), "1.50 s");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(123e-6), "123 us");
  EXPECT_EQ(duration_text(0.5e-6), "0.50 us");
}

}  // namespace
}  // namespace quire::commands
