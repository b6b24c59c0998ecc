// What serve does with the self-check's verdict, through its own loading: right kernels serve, a wrong pairing is refused by name or, when
// relaxed, served and said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "commands/doctor.h"
#include "commands/progress.h"
#include "commands/startup.h"
#include "config/command_line.h"
#include "selfcheck/faults.h"

namespace quire::commands {
namespace {

using testing::HasSubstr;

struct Started {
  std::shared_ptr<engine::Metrics> metrics;
  std::string error, timeline, relaxed;
  std::vector<std::string> warnings;
};

Prepared prepared_for(const std::vector<std::string>& flags, StartupTimeline& timeline) {
  std::vector<std::string> line{"serve", std::string(QUIRE_SOURCE_DIR) + "/models/gsm-tiny", "--kv-cache-memory-bytes", "16M", "--max-num-seqs", "16"};
  line.insert(line.end(), flags.begin(), flags.end());
  const auto command = config::parse_command_line(line);
  QUIRE_CHECK(command.ok()) << command.error().message;
  return prepare(std::get<config::ServeCommand>(command.value()).options, timeline).value();
}

Started start(const std::vector<std::string>& flags, const StartupSwitches& switches) {
  StartupTimeline timeline;
  const Prepared prepared = prepared_for(flags, timeline);
  Started out{.metrics = std::make_shared<engine::Metrics>(metrics_config(prepared.config))};
  engine::HealthMonitor health;
  const auto loaded = LoadedModel::load(prepared, out.metrics, health, timeline, switches);
  out.timeline = timeline.text();
  if (!loaded.ok()) {
    out.error = loaded.error().message;
    return out;
  }
  const auto model = api_model(prepared, loaded.value().get());
  for (const std::string& item : model->relaxed) out.relaxed += item + " ";
  out.warnings = model->warnings;
  loaded.value()->engine()->stop(std::chrono::milliseconds(0));
  return out;
}

TEST(SelfCheckAtStart, RightKernelsServe) {
  const Started s = start({}, {});
  EXPECT_EQ(s.error, "");
  EXPECT_THAT(s.timeline, HasSubstr("+ self-check "));
  EXPECT_THAT(s.metrics->render(), HasSubstr("quire:self_check_failed{"));
  EXPECT_THAT(s.metrics->render(), testing::Not(testing::AnyOf(HasSubstr("quire:relaxed_checks"), HasSubstr("quire:kv_scales_default"))));
  EXPECT_THAT(s.warnings, testing::IsEmpty());
}

TEST(SelfCheckAtStart, RelaxingWhatPassesIsNoWarning) {
  const Started s = start({"--relaxed", "self-check", "kv-scales", "unused-tensors", "--kv-cache-dtype", "bfloat16"}, {});
  EXPECT_EQ(s.relaxed, "self-check kv-scales unused-tensors ");
  EXPECT_THAT(s.warnings, testing::IsEmpty());
  for (const char* item : {"self-check", "kv-scales", "unused-tensors"}) EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:relaxed_checks\\{[^}]*check=\"" + std::string(item) + "\"[^}]*\\} 0"));
}

TEST(KvGateAtStart, AnFp8CacheIsMeasuredAndSaid) {
  const Started s = start({"--kv-cache-dtype", "fp8"}, {});
  EXPECT_EQ(s.error, "");
  EXPECT_THAT(s.warnings, testing::ElementsAre(HasSubstr("FP8 KV cache (fp8_e4m3 (OCP)) without scales")));
  EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:kv_scales_default\\{[^}]*\\} 1"));
  EXPECT_THAT(s.timeline, HasSubstr("+ KV gate "));
  EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:kv_gate_failed\\{[^}]*\\} 0"));
  EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:kv_attention_error\\{[^}]*layer=\"5\"[^}]*\\} 0\\.0"));
}

// Thread #25104: FULL was recorded for mixed batches with a backend whose graphs may hold decode rows alone.
TEST(SelfCheckAtStart, AForcedPairingIsRefusedAndNamed) {
  const Started s = start({"--attention-backend", "CPU_SPLIT"}, {.forced_graph_mode = graph::GraphMode::kFull});
  EXPECT_THAT(s.error, HasSubstr("the self-check failed: graph support of mixed (decode with extend and prefill) rows"));
  EXPECT_THAT(s.error, HasSubstr("CPU_SPLIT supports UNIFORM_SINGLE_TOKEN_DECODE"));
  EXPECT_THAT(s.error, HasSubstr("in the numbers: same bits as eager of prefill rows in prefill rows, FULL graph"));
  EXPECT_THAT(s.error, HasSubstr("--relaxed self-check"));
}

// A kernel that is wrong: the refusal names operation, row class and batch.
TEST(SelfCheckAtStart, AWrongKernelIsRefusedAndNamed) {
  constexpr std::int64_t kTableStride = 2048 / 16, kStateRows = 16, kUnused = 0;
  const StartupSwitches switches{.kernels = test::faulty_kernels(test::Fault::kLengthsStale, {kStateRows, kTableStride, kUnused, kUnused})};
  const Started s = start({"--num-threads", "1"}, switches);
  EXPECT_THAT(s.error, HasSubstr("the self-check failed: attention of decode rows in decode rows, FULL graph, replayed with other lengths and blocks: layer 0, row "));
  EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:self_check_failed\\{[^}]*\\} 1"));
}

TEST(SelfCheckAtStart, RelaxedServesAndSaysSo) {
  const Started s = start({"--attention-backend", "CPU_SPLIT", "--relaxed", "self-check"}, {.forced_graph_mode = graph::GraphMode::kFull});
  EXPECT_EQ(s.error, "");
  EXPECT_EQ(s.relaxed, "self-check ");
  EXPECT_THAT(s.warnings, testing::ElementsAre(testing::StartsWith("--relaxed self-check: answers may be wrong: graph support of mixed ")));
  EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:relaxed_checks\\{[^}]*check=\"self-check\"[^}]*\\} 1"));
  EXPECT_THAT(s.metrics->render(), testing::ContainsRegex("quire:self_check_failed\\{[^}]*\\} 1"));
}

TEST(Progress, BarAndHealth) {
  EXPECT_EQ(progress_bar(0), "[----------] 0 %");
  EXPECT_EQ(progress_bar(9), "[----------] 9 %");
  EXPECT_EQ(progress_bar(70), "[#######---] 70 %");
  EXPECT_EQ(progress_bar(100), "[##########] 100 %");
  EXPECT_EQ(progress_bar(-4), progress_bar(0));
  EXPECT_EQ(progress_bar(1000), progress_bar(100));
  engine::HealthMonitor health;
  Progress progress(health, "recording graphs");
  // The monitor's own thread takes it over.
  const auto text_with = [&](const std::string& wanted) {
    for (int i = 0; i < 2000 && health.verdict().text.find(wanted) == std::string::npos; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return health.verdict().text;
  };
  progress.tell(13, 51);
  EXPECT_EQ(text_with("25 %"), "starting: recording graphs 25 %");
  progress.tell(0, 0);
  EXPECT_EQ(text_with("100 %"), "starting: recording graphs 100 %");
}

TEST(Doctor, TableAndDocument) {
  selfcheck::Report r{.seconds = 0.5, .num_steps = 3};
  r.verdicts.push_back({"attention", "decode rows, eager", "decode", true, 1e-7, 2e-6, "row 0", 3});
  r.verdicts.push_back({"attention", "mixed rows, FULL graph", "extend", false, std::numeric_limits<double>::infinity(), 2e-6, "row 2: nan instead of 1"});
  r.verdicts.back().cause = "as if it were so";
  r.verdicts.push_back({"attention", "mixed rows, FULL graph", "decode", true, 1.5e-6, 2e-6, "row 1", 0});
  r.verdicts.push_back({"same bits as eager", "mixed rows, FULL graph", "decode", true, 0.0, 0.0, "all", 0});
  EXPECT_EQ(report_text(r, Detail::kSummary),
            "     check               rows    checks  nearest to its bound\n"
            "ok   attention           decode  2       75 %\n"
            "     attention           extend  1       1 FAILED\n"
            "ok   same bits as eager  decode  1       0 %\n"
            "     check               rows    batch                   error     bound     worst element\n"
            "FAIL attention           extend  mixed rows, FULL graph  inf       2.00e-06  row 2: nan instead of 1, as if it were so\n"
            "4 checks over 3 steps in 0.50 s: 1 FAILED\n");
  const std::string all = report_text(r, Detail::kEveryCheck);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 6) << "a title, four checks, the verdict";
  EXPECT_THAT(all, HasSubstr("FAIL attention           extend  mixed rows, FULL graph  inf       2.00e-06  row 2: nan instead of 1, as if it were so\n"));
  const auto json = report_json(r);
  EXPECT_FALSE(json.at("passed").as_bool());
  EXPECT_EQ(json.at("verdicts").as_array()[0].as_object().at("layer").as_int64(), 3);
  EXPECT_TRUE(json.at("verdicts").as_array()[0].as_object().at("cause").is_null());
  EXPECT_TRUE(json.at("verdicts").as_array()[1].as_object().at("layer").is_null());
  EXPECT_TRUE(json.at("verdicts").as_array()[1].as_object().at("worst_error").is_null());
  EXPECT_THAT(std::string(json.at("failure").as_string()), HasSubstr("attention of extend rows in mixed rows, FULL graph: row 2"));
}

}  // namespace
}  // namespace quire::commands
